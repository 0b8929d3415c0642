// Masks of states in which values or keys must differ: what no repetition decides is shared.
//
// The mask is that of the state as if nothing had to differ, less the tokens that would repeat
// something, or what only used values begin with. Those are found by walking the two states side by
// side, as long as what is spelled can become something that was used; and one by one of the tokens
// in which an item or member ends and another begins that may have been there.
#pragma once

#include <string>
#include <unordered_map>

#include "differing.h"

namespace cdec::schemas {

class Repetitions {
 public:
  Repetitions(States& states, const cdec_token_trie& whole) : states_(states), whole_(whole) {
    const Program& p = states.p;
    for (int64_t token = 0; token + 1 < p.vocabulary_offsets.size && p.has_distinct; ++token) {
      const std::string_view text = text_of(token);
      if (text.find(',') == text.npos) continue;
      begins_.push_back(static_cast<int32_t>(token));
      if (text.find(',', text.find('"')) != text.npos)
        begins_behind_quote_.push_back(static_cast<int32_t>(token));
    }
    int32_t deepest = 0;
    for (int64_t node = 0; node < whole.depth.size; ++node)
      deepest = std::max(deepest, whole.depth[node]);
    path_.resize(deepest + 1);
  }

  // The state as if nothing had to differ; itself where nothing has.
  int32_t without_uniqueness(int32_t state) {
    const int32_t frame = states_[state].frame;
    if (!states_.p.has_distinct || !states_.remembers(frame)) return state;
    return states_.state_of(states_.relaxed(frame), states_[state].lexical);
  }

  // Removes the tokens that lead nowhere from the mask of the state that has no uniqueness; returns
  // whether there are any.
  bool remove(int32_t state, int32_t relaxed, uint32_t* words) {
    removed_ = false;
    const Risks& risks = risks_of(relaxed, words);
    for (const int32_t token : risks.tokens) try_token(state, token, words);
    if (!risks.keys.empty()) {
      const int32_t frame = states_[state].frame;
      const std::vector<std::string> seen = states_.remembered_keys(frame);
      // A key that is open may end in the token.
      const bool is_open = states_.frame(frame).phase == Phase::kKey;
      const auto is_risky = [&](const Key& key) {
        return is_open || std::ranges::any_of(
                              seen, [&](const std::string& other) { return key.begins(other); });
      };
      for (const Key& key : risks.keys)
        if (is_risky(key)) try_token(state, key.token, words);
    }
    if (!states_.is_free(state)) walk(state, relaxed, words);
    return removed_;
  }

 private:
  struct Place {
    int32_t state, relaxed;
  };
  // A token in which a key begins, and as much of the key as it holds.
  struct Key {
    int32_t token;
    std::string_view text;
    bool is_whole;

    bool begins(const std::string& other) const {
      return is_whole ? other == text : other.starts_with(text);
    }
  };
  // Tokens that may repeat something though what stands open differs from what it has to.
  struct Risks {
    std::vector<int32_t> tokens;
    std::vector<Key> keys;
  };
  static constexpr size_t kMostRisks = 4096;  // states of which they are kept

  std::string_view text_of(int64_t token) const {
    const Range bytes = range(states_.p.vocabulary_offsets, token);
    return {reinterpret_cast<const char*>(states_.p.vocabulary_bytes.at) + bytes.first,
            static_cast<size_t>(bytes.size())};
  }

  const Risks& risks_of(int32_t relaxed, const uint32_t* words) {
    if (const auto known = risks_.find(relaxed); known != risks_.end()) return known->second;
    if (risks_.size() == kMostRisks) risks_.clear();
    const Phase phase = states_.frame(states_[relaxed].frame).phase;
    const bool is_content = phase == Phase::kKey || phase == Phase::kString;
    Risks risks;
    for (const int32_t token : is_content ? begins_behind_quote_ : begins_)
      if (words[token >> 5] >> (token & 31) & 1) assess(relaxed, token, risks);
    return risks_[relaxed] = std::move(risks);
  }

  // Follows a token as if nothing had to differ to what begins in it.
  void assess(int32_t state, int32_t token, Risks& risks) {
    const std::string_view text = text_of(token);
    Key key{token, {}, false};
    bool has_key = false;
    for (size_t at = 0; at < text.size(); ++at) {
      state = states_.step(state, static_cast<uint8_t>(text[at]));
      if (text[at] != ',' || state < 0) continue;
      const size_t first = text.find('"', at);
      const bool is_key = states_.awaits_other_key(state) && first != text.npos;
      if (states_.awaits_distinct(state) || (is_key && has_key)) return risks.tokens.push_back(token);
      if (!is_key) continue;
      has_key = true;
      const size_t last = text.find('"', first + 1);
      key.text = text.substr(first + 1, last == text.npos ? last : last - first - 1);
      key.is_whole = last != text.npos;
      if (key.text.find('\\') != text.npos) return risks.tokens.push_back(token);
    }
    if (has_key) risks.keys.push_back(key);
  }

  // Walks the tokens as long as used values begin so.
  void walk(int32_t state, int32_t relaxed, uint32_t* words) {
    path_[0] = {state, relaxed};
    suspects_.assign(1, suspects_of(state));
    for (int64_t node = 0; node < whole_.depth.size;) {
      const int32_t depth = whole_.depth[node], byte = whole_.node_byte[node];
      const Place before = path_[depth - 1];
      const bool may_come = suspects_[depth - 1][byte] && states_.may_come(before.relaxed, byte);
      const int32_t relaxed = may_come ? states_.step(before.relaxed, byte) : -1;
      const int32_t after = relaxed < 0 ? -1 : states_.step(before.state, byte);
      if (relaxed >= 0 && after < 0) clear_below(node, words);
      const bool goes_on = after >= 0 && !states_.is_free(after) && whole_.skip[node] > node + 1;
      if (goes_on) {
        path_[depth] = {after, relaxed};
        suspects_.resize(depth);
        suspects_.push_back(suspects_of(after));
      }
      node = goes_on ? node + 1 : whole_.skip[node];
    }
  }

  // The bytes behind which something may still be what was used, or be over.
  std::bitset<256> suspects_of(int32_t state) {
    const Phase phase = states_.frame(states_[state].frame).phase;
    const bool is_content = phase == Phase::kKey || phase == Phase::kString;
    if (!is_content || states_[state].lexical.is_escape()) return std::bitset<256>().set();
    return states_.used_bytes(state).set('"').set('\\');
  }

  void try_token(int32_t state, int32_t token, uint32_t* words) {
    if (words[token >> 5] >> (token & 31) & 1 && states_.step_token(state, token) < 0)
      clear(token, words);
  }

  void clear_below(int64_t node, uint32_t* words) {
    const int64_t first = whole_.token_offsets[node],
                  last = whole_.token_offsets[whole_.skip[node]];
    for (int64_t i = first; i < last; ++i) clear(whole_.token_ids[i], words);
  }

  void clear(int32_t token, uint32_t* words) {
    const uint32_t bit = 1u << (token & 31);
    removed_ |= (words[token >> 5] & bit) != 0;
    words[token >> 5] &= ~bit;
  }

  States& states_;
  const cdec_token_trie& whole_;  // of all tokens
  // Tokens with a comma, behind which another member or element may begin; those where a quote stands
  // before it.
  std::vector<int32_t> begins_, begins_behind_quote_;
  std::unordered_map<int32_t, Risks> risks_;  // by states without uniqueness
  // Of the walk under way: states and bytes to follow, by depth.
  std::vector<Place> path_;
  std::vector<std::bitset<256>> suspects_;
  bool removed_ = false;
};

}  // namespace cdec::schemas

// Token masks of states.
//
// Within strings that may hold anything, most tokens are a row that is kept, and only those in
// which the string ends are walked; between values, what stands behind white space. So a mask is a
// row that many share, and the tokens that it has besides, or a row of its own.
#pragma once

#include "bits.h"
#include "endings.h"
#include "repetitions.h"
#include "set_tokens.h"

namespace cdec::schemas {

struct Vocabulary {
  const cdec_token_trie &whole, &crossing, &endings, &behind;  // of cdec.core.schemas.json_tokens
  const cdec_json_tokens& json;
};

class Masks {
 public:
  Masks(States& states, Budgets& budgets, const Vocabulary& vocabulary, int64_t budget)
      : states_(states),
        budgets_(budgets),
        p(states.p),
        v(vocabulary),
        words_(v.json.content.width),
        longest_(v.json.content.rows - 2),
        budget_(budget),
        masks_(&memory_),
        repetitions_(states, vocabulary.whole),
        set_tokens_(states, vocabulary.whole),
        row_(words_),
        run_index_(p.state_label.size, -1) {
    int32_t deepest = 0, fewest = 0;
    for (int64_t node = 0; node < v.whole.depth.size; ++node)
      deepest = std::max(deepest, v.whole.depth[node]);
    for (int64_t state = 0; state < p.state_shortest.size; ++state)
      fewest = std::max(fewest, p.state_shortest[state]);
    path_.resize(deepest + 1);
    far_ = int64_t{deepest} + fewest;
  }

  // Writes the tokens that can follow in a state, ends left out.
  void write(int32_t state, uint32_t* words, int64_t width) {
    copy(masks_[mask_of(state)], words, width);
  }

  // The most tokens that are needed behind any token that can follow in a state, or more: of
  // content that only the vocabulary decides no token is followed.
  int64_t ahead(int32_t state, Endings& endings) {
    int64_t most = 0;
    const auto take = [&](int32_t after) { most = std::max<int64_t>(most, endings.fewest(after)); };
    const auto visit = [&](int32_t, int32_t after) {
      after = budgets_.settle(after);
      if (after >= 0) take(after);
    };
    const Content content = free_content(state);
    const State at = states_[state];
    const bool is_free = content.row >= 0 && has_one_end(at.frame);
    if (is_free || is_in_one_set(state)) {
      const int32_t behind = endings.behind_quote(state);
      if (behind < 0) return Endings::kFar;
      most = kUnfinished + missing(at.frame) + endings.fewest(behind);
      std::vector<int32_t> within;
      if (is_free)
        walk(content.is_steady ? v.endings : v.crossing, state, nullptr, visit);
      else
        walk_sets(state, within, visit);
    } else if (states_.frame(at.frame).phase >= Phase::kKey || p.layout) {
      walk(v.whole, state, nullptr, visit);
    } else {
      const int32_t* run_ends = run_ends_of(at.lexical.blanks());
      const std::vector<int32_t> ends(run_ends, run_ends + v.json.run_offsets.size - 1);
      for (const int32_t end : ends)
        if (end >= 0) take(states_.state_of(at.frame, LexicalState(end)));
      walk(v.behind, states_.state_of(at.frame, LexicalState(p.blank)), ends.data(), visit);
    }
    return most;
  }

  void keep_within_budget() {
    if (memory_.bytes() > budget_) drop();
  }

  // Begins an epoch: forgets all masks, and gives back what they took.
  void drop() {
    ++epoch;
    std::pmr::vector<Mask>(&memory_).swap(masks_);
  }

  const cdec_token_trie& whole() const { return v.whole; }
  int64_t size() const { return static_cast<int64_t>(masks_.size()); }
  int64_t bytes() const { return memory_.bytes(); }

  int64_t hits = 0, misses = 0, epoch = 0;

 private:
  struct Mask {
    static constexpr size_t kMostTokens = 512;
    const uint32_t* base;              // a row of the vocabulary, or none
    std::pmr::vector<uint32_t> row;    // one of its own, where there are more tokens besides
    std::pmr::vector<int32_t> tokens;  // that the row has not
  };
  // How far content goes that only the vocabulary decides.
  struct Content {
    int64_t row;     // of the vocabulary; -1 where only a walk can tell
    bool is_steady;  // escapes are as free, and what may stand behind the string is always the same
  };

  int32_t mask_of(int32_t state) {
    if (states_[state].epoch == epoch) {
      ++hits;
      return states_[state].mask;
    }
    const int32_t relaxed = repetitions_.without_uniqueness(state), same = state_like(relaxed);
    int32_t mask = states_[same].epoch == epoch ? states_[same].mask : new_mask(same);
    states_[same].mask = mask;
    states_[same].epoch = epoch;
    if (relaxed != state) mask = own_mask(state, relaxed, mask);
    states_[state].mask = mask;
    states_[state].epoch = epoch;
    return mask;
  }

  // The mask of a state in which something may not come again: a row of its own where that matters.
  int32_t own_mask(int32_t state, int32_t relaxed, int32_t shared) {
    copy(masks_[shared], row_.data(), words_);
    return repetitions_.remove(state, relaxed, row_.data()) ? keep(nullptr, row_, {}) : shared;
  }

  int32_t new_mask(int32_t state) {
    const Content content = free_content(state);
    const State at = states_[state];
    found_.clear();
    const auto find = [&](int32_t token, int32_t after) {
      if (budgets_.settle(after) >= 0) found_.push_back(token);
    };
    if (content.row >= 0) {
      walk(content.is_steady ? v.endings : v.crossing, state, nullptr, find);
    } else if (set_tokens_.reads(state)) {
      walk_sets(state, found_, find);
    } else if (states_.frame(at.frame).phase >= Phase::kKey || p.layout) {
      walk(v.whole, state, nullptr, find);
    } else {
      const int32_t* run_ends = run_ends_of(at.lexical.blanks());
      add_blanks(run_ends);
      walk(v.behind, states_.state_of(at.frame, LexicalState(p.blank)), run_ends, find);
    }
    const uint32_t* base = content.row < 0 ? nullptr : v.json.content[content.row];
    if (found_.size() <= Mask::kMostTokens) return keep(base, {}, found_);
    copy_words(base, base ? words_ : 0, row_.data(), words_);
    for (const int32_t token : found_) set_bit(row_.data(), token);
    return keep(nullptr, row_, {});
  }

  // Keeps a mask; where that would pass the budget, the others are dropped first.
  int32_t keep(const uint32_t* base, std::span<const uint32_t> row,
               std::span<const int32_t> tokens) {
    const auto bytes = static_cast<int64_t>(row.size_bytes() + tokens.size_bytes() + sizeof(Mask));
    if (!masks_.empty() && memory_.bytes() + bytes > budget_) drop();
    masks_.push_back(
        {base, {row.begin(), row.end(), &memory_}, {tokens.begin(), tokens.end(), &memory_}});
    ++misses;
    return static_cast<int32_t>(masks_.size()) - 1;
  }

  void copy(const Mask& mask, uint32_t* words, int64_t width) const {
    const uint32_t* row = mask.row.empty() ? mask.base : mask.row.data();
    copy_words(row, row ? words_ : 0, words, width);
    for (const int32_t token : mask.tokens)
      if (token >> 5 < width) set_bit(words, token);
  }

  // Whether no token can come near a string's maximum, or find it below its minimum.
  bool is_far(const Item& item) const {
    return item.content >= p.string_min[item.part] && p.string_max[item.part] - item.content > far_;
  }

  // Whether so many tokens are left to a string of any content that it can end in time behind each.
  bool has_tokens(const Item& item) const {
    const int64_t left = budgets_.left(item);
    if (left < 0) return true;
    const int64_t lacking = std::max<int64_t>(p.string_min[item.part] - int64_t{item.content}, 0);
    return p.free_behind(item.place) >= kAbsorbing && left > kUnfinished * (1 + lacking);
  }

  // A state with the same mask: numbers of characters far from maxima are as good as one, and so are
  // numbers of tokens.
  int32_t state_like(int32_t state) {
    const Frame at = states_.frame(states_[state].frame);
    const auto is_roomy = [&](const Item& item) { return item.tokens > 0 && has_tokens(item); };
    const auto is_far = [&](const Item& item) { return this->is_far(item) || is_roomy(item); };
    if (at.phase != Phase::kString || std::ranges::none_of(at.items, is_far)) return state;
    states_.begin_frame(Phase::kString, at.parent, at.text, at.value);
    for (Item item : at.items) {
      if (is_roomy(item)) item.tokens = 0;
      if (this->is_far(item))
        item.content =
            static_cast<int32_t>(std::min<int64_t>(p.string_max[item.part] - far_ - 1, INT32_MAX));
      states_.add(item);
    }
    return states_.state_of(states_.end_frame(), states_[state].lexical);
  }

  // Which tokens of content alone are allowed.
  Content free_content(int32_t state) {
    const Frame at = states_.frame(states_[state].frame);
    const bool is_key = at.phase == Phase::kKey;
    if ((!is_key && at.phase != Phase::kString) || states_[state].lexical.is_escape())
      return {-1, false};
    int64_t room = -1;
    bool is_steady = true;
    for (const Item& item : at.items) {
      const uint8_t free = p.free_behind(is_key ? item.content : item.place);
      if (!is_key && !has_tokens(item)) return {-1, false};
      is_steady &= free >= kAbsorbing;
      if (!is_key) {
        room = std::max(room, free_string(item, is_steady));
      } else if (free >= kFree && states_.progresses.regions_fit(item.part, item.place)) {
        room = longest_;
      } else {
        is_steady = false;
      }
    }
    // Other alternatives may allow longer content.
    if (room < 0 || (room < longest_ && at.items.size() > 1)) return {-1, false};
    return is_steady ? Content{longest_ + 1, true} : Content{room, false};
  }

  // How many characters of content a string may go on with, whatever they are; -1 for none.
  int64_t free_string(const Item& item, bool& is_steady) const {
    const uint8_t free = p.free_behind(item.place);
    const int64_t most = p.string_max[item.part], left = most - item.content;
    const bool is_near = most >= 0 && left <= far_;
    if (is_near || free < kFree || item.content < p.string_min[item.part]) is_steady = false;
    if (free < (is_near ? kAbsorbing : kFree)) return -1;
    return is_near ? std::min(left, longest_) : longest_;
  }

  // Where each run of white space leads from a state of blanks. subtle: valid until the next call.
  const int32_t* run_ends_of(int32_t blank) {
    const int64_t runs = v.json.run_offsets.size - 1;
    if (run_index_[blank] < 0) {
      const auto first = static_cast<int32_t>(run_ends_.size());
      for (int64_t run = 0; run < runs; ++run) {
        int32_t state = blank;
        for (const int64_t at : range(v.json.run_offsets, run))
          if (state >= 0) state = p.step(state, v.json.runs[at]);
        run_ends_.push_back(state);
      }
      run_index_[blank] = first;
    }
    return run_ends_.data() + run_index_[blank];
  }

  // Adds the tokens of white space alone.
  void add_blanks(const int32_t* run_ends) {
    for (int64_t i = 0; i < v.json.blank.size; ++i)
      if (run_ends[v.json.run_of[v.json.blank[i]]] >= 0) found_.push_back(v.json.blank[i]);
  }

  static constexpr int64_t kUnfinished = 13;  // bytes of an escaped character's rest, and a quote

  // Whether a string or key closes alike wherever in it a character ends.
  bool has_one_end(int32_t frame) const {
    const Frame at = states_.frame(frame);
    return at.text < 0 && std::ranges::all_of(at.items, [&](const Item& item) {
      return p.free_behind(at.phase == Phase::kKey ? item.content : item.place) >= kAbsorbing;
    });
  }

  // Whether a state is in a string that is a member of one set, whichever it is.
  bool is_in_one_set(int32_t state) const {
    const Frame at = states_.frame(states_[state].frame);
    return at.items.size() == 1 && at.text < 0 && set_tokens_.reads(state);
  }

  // How many bytes a string still needs, of the alternative that needs the most.
  int64_t missing(int32_t frame) const {
    constexpr int64_t kEscaped = 6;  // bytes of one that is spelled by its number
    const Frame at = states_.frame(frame);
    int64_t most = 0;
    if (at.phase != Phase::kString) return most;
    for (const Item& item : at.items)
      most = std::max(most, p.sets.is_place(item.place)
                                ? kEscaped * p.sets.most_to_an_end(item.place)
                                : p.string_min[item.part] - int64_t{item.content});
    return most;
  }

  // Visits the tokens of a trie that a state allows, and the states behind them; `run_ends` says
  // where the white space before its texts leads, if there is any.
  template <class Visit>
  void walk(const cdec_token_trie& trie, int32_t state, const int32_t* run_ends, Visit&& visit) {
    path_[0] = state;
    walk_nodes(trie, 0, trie.depth.size, run_ends, visit);
  }

  // The same of some nodes, behind a state that stands in the path.
  template <class Visit>
  void walk_nodes(const cdec_token_trie& trie, int64_t node, int64_t stop, const int32_t* run_ends,
                  Visit& visit) {
    while (node < stop) {
      const int32_t depth = trie.depth[node], byte = trie.node_byte[node],
                    before = path_[depth - 1];
      const int32_t after = states_.may_come(before, byte) ? states_.step(before, byte) : -1;
      if (after < 0) {
        node = trie.skip[node];
        continue;
      }
      path_[depth] = after;
      for (int32_t i = trie.token_offsets[node]; i < trie.token_offsets[node + 1]; ++i) {
        const int32_t token = trie.token_ids[i];
        const int32_t blank = run_ends ? run_ends[v.json.run_of[token]] : p.blank;
        if (!run_ends || (blank >= 0 && p.state_label[blank] >= 0)) visit(token, after);
      }
      ++node;
    }
  }

  // Visits the tokens that a state within members of sets allows and that leave the member; adds
  // those of content alone. Behind the quotes of a single set's members, whichever they are, the text
  // is in one state.
  template <class Visit>
  void walk_sets(int32_t state, std::vector<int32_t>& content, Visit&& visit) {
    const bool is_single = states_.frame(states_[state].frame).items.size() == 1;
    int32_t behind_quote = -1;
    set_tokens_.walk(state, content, [&](int32_t node, int32_t before) {
      const int32_t depth = v.whole.depth[node], stop = v.whole.skip[node];
      const bool is_quote = v.whole.node_byte[node] == '"';
      path_[depth - 1] = before;
      if (!is_quote || !is_single) return walk_nodes(v.whole, node, stop, nullptr, visit);
      if (behind_quote < 0) behind_quote = states_.step(before, '"');
      if (behind_quote < 0) return;
      path_[depth] = behind_quote;
      for (int32_t i = v.whole.token_offsets[node]; i < v.whole.token_offsets[node + 1]; ++i)
        visit(v.whole.token_ids[i], behind_quote);
      walk_nodes(v.whole, node + 1, stop, nullptr, visit);
    });
  }

  States& states_;
  Budgets& budgets_;
  const Program& p;
  const Vocabulary v;
  const int64_t words_, longest_, budget_;
  int64_t far_;  // more characters than the longest token has, and fewest further ones
  CountedMemory memory_;
  std::pmr::vector<Mask> masks_;
  Repetitions repetitions_;
  SetTokens set_tokens_;
  std::vector<int32_t> path_;   // of the walk under way: states by depth
  std::vector<int32_t> found_;  // and tokens
  std::vector<uint32_t> row_;   // of the mask that is made
  // Of states of blanks: where in run_ends_ stands what each run of white space leads to.
  std::vector<int32_t> run_index_, run_ends_;
};

}  // namespace cdec::schemas

// Masks of keys and strings that must be distinct: what no repetition decides is shared.
//
// The mask is that of a state without uniqueness, less the tokens that would spell a used text or
// what only used ones go on from: those along the rest of one. Nor does that state know what was
// spelled once its text is closed, as it may be within a token. These few are stepped one by one.
#pragma once

#include "states.h"

namespace cdec::schemas {

class Repetitions {
 public:
  Repetitions(States& states, const cdec_token_trie& whole) : states_(states), whole_(whole) {
    const Program& p = states.p;
    for (int64_t token = 0; token + 1 < p.vocabulary_offsets.size; ++token) {
      const Range bytes = range(p.vocabulary_offsets, token);
      const uint8_t* at = p.vocabulary_bytes.at;
      if (std::count(at + bytes.first, at + bytes.last, '"') > 1)
        several_.push_back(static_cast<int32_t>(token));
    }
  }

  // The state without the text that must be distinct.
  int32_t without_uniqueness(int32_t state) {
    const Frame at = states_.frame(states_[state].frame);
    if (at.phase < Phase::kKey || at.text < 0) return state;
    states_.begin_frame(at.phase, at.parent);
    for (const Item& item : at.items) states_.add(item);
    return states_.state_of(states_.end_frame(), states_[state].lexical);
  }

  // The texts that may not come again and begin with what was spelled.
  std::vector<int32_t> used_texts(int32_t state) {
    std::vector<int32_t> found;
    const Frame at = states_.frame(states_[state].frame);
    const bool is_key = at.phase == Phase::kKey;
    const Progresses& progresses = states_.progresses;
    for (const Item& item : (is_key ? at : states_.frame(at.parent)).items)
      for (const int64_t text : is_key ? progresses.object_texts(item.part, item.place)
                                       : progresses.array_texts(item.part, item.place))
        if (states_.texts.is_prefix(at.text, static_cast<int32_t>(text)))
          found.push_back(static_cast<int32_t>(text));
    return found;
  }

  // Removes the tokens that lead nowhere for that from a mask; returns whether there are any.
  bool remove(int32_t state, uint32_t* words) {
    removed_ = false;
    for (const int32_t token : several_) step(state, words, token);
    remove_used(state, words);
    return removed_;
  }

 private:
  // Removes the tokens that repeat a used text, or that none but used ones begin with.
  void remove_used(int32_t state, uint32_t* words) {
    const std::vector<int32_t> used = used_texts(state);
    if (used.empty()) return;
    // Within an escape any token may be the rest of one.
    if (states_[state].lexical.is_escape())
      return step_below(state, words, 0, static_cast<int32_t>(whole_.depth.size));
    const int32_t text = states_.frame(states_[state].frame).text;
    for (const int32_t longer : used) follow(state, words, text, longer);
  }

  // Steps the tokens that begin with the rest of a used text, or with an escape in it.
  void follow(int32_t state, uint32_t* words, int32_t text, int32_t used) {
    std::vector<int32_t> rest;  // from its end on
    for (; used > text; used = states_.texts.parent(used)) rest.push_back(states_.texts.byte(used));
    int32_t first = 0, last = static_cast<int32_t>(whole_.depth.size);
    while (first < last) {
      const int32_t escape = child(first, last, '\\');
      if (escape >= 0) step_below(state, words, escape, whole_.skip[escape]);
      const int32_t byte = rest.empty() ? '"' : rest.back();
      if (!rest.empty() && byte == '\\') return;
      const int32_t node = child(first, last, byte);
      if (rest.empty() && node >= 0) step_below(state, words, node, whole_.skip[node]);
      // What is no content unless it is escaped is no way on.
      if (rest.empty() || node < 0 || byte == '"') return;
      step_below(state, words, node, node + 1);
      rest.pop_back();
      first = node + 1;
      last = whole_.skip[node];
    }
  }

  // The node of a byte among siblings from `first` on, -1 where there is none.
  int32_t child(int32_t first, int32_t last, int32_t byte) const {
    while (first < last && whole_.node_byte[first] != byte) first = whole_.skip[first];
    return first < last ? first : -1;
  }

  // Steps the tokens of nodes, and takes those from a mask that lead nowhere.
  void step_below(int32_t state, uint32_t* words, int32_t first, int32_t last) {
    for (int32_t i = whole_.token_offsets[first]; i < whole_.token_offsets[last]; ++i)
      step(state, words, whole_.token_ids[i]);
  }

  void step(int32_t state, uint32_t* words, int32_t token) {
    uint32_t& word = words[token >> 5];
    const uint32_t bit = 1u << (token & 31);
    if (!(word & bit) || states_.step_token(state, token) >= 0) return;
    word &= ~bit;
    removed_ = true;
  }

  States& states_;
  const cdec_token_trie& whole_;  // of all tokens
  std::vector<int32_t> several_;  // tokens with more than one quote
  bool removed_ = false;
};

}  // namespace cdec::schemas

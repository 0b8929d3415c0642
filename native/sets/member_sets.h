// Sets within schemas and grammars: texts that are members of a set, walked in the trie over their
// bytes.
//
// The trie is a mapped file of any size, and nothing that is compiled depends on it. States of it that
// a text meets are numbered as *places* behind the states of automata, so that an alternative stands
// in either.
#pragma once

#include <memory_resource>
#include <vector>

#include "table.h"
#include "trie.h"

namespace cdec {

class MemberSets {
 public:
  MemberSets(int64_t automaton_states, std::pmr::memory_resource* memory)
      : first_(static_cast<int32_t>(automaton_states)), memory_(memory), places_(memory) {}

  // Adds the next set: a trie over bytes, without tokens that end it.
  void add(const cdec_trie& trie) { sets_.push_back({trie, Table(memory_)}); }

  bool is_place(int32_t place) const { return place >= first_; }
  bool holds(int64_t place) const {
    return place >= first_ && place - first_ < static_cast<int64_t>(places_.size());
  }
  const cdec_trie& trie(int32_t place) const { return sets_[places_[place - first_].set].trie; }
  int64_t state(int32_t place) const { return places_[place - first_].state; }
  int32_t set(int32_t place) const { return places_[place - first_].set; }

  // The place before the first byte of a set's members; -1 where there is no such set.
  int32_t start(int64_t set) {
    if (set >= static_cast<int64_t>(sets_.size())) return -1;
    return place_of(static_cast<int32_t>(set), root(sets_[set].trie));
  }

  // The place after a byte, -1 where no member goes on so.
  int32_t step(int32_t place, int32_t byte) {
    const int32_t set = this->set(place);
    const int64_t after = after_byte(trie(place), state(place), byte);
    return after < 0 ? -1 : place_of(set, after);
  }

  int64_t size() const { return static_cast<int64_t>(sets_.size()); }
  const cdec_trie& trie_of(int64_t set) const { return sets_[set].trie; }
  // Whether no byte of a member was read at a place.
  bool is_root(int32_t place) const { return state(place) == root(trie(place)); }
  // Whether members go on from a place.
  bool has_bytes(int32_t place) const {
    bool found = false;
    each_byte(place, [&](int32_t) { found = true; });
    return found;
  }

  bool is_member(int32_t place) const { return ends(trie(place), state(place)); }

  // The next bytes of members, ascending; what a filter leaves out is left out.
  template <class Visit>
  void each_byte(int32_t place, Visit&& visit) const {
    const cdec_trie& trie = this->trie(place);
    const Span span = span_of(trie, state(place));
    for (int64_t at = span.first + (span.has_end && !span.in_tail); at < span.stop; ++at) {
      const int32_t byte = span.in_tail ? trie.tokens[at] : trie.token[at];
      if (byte >= 0 && byte < 256 && (span.in_tail || is_kept(trie, at))) visit(byte);
    }
  }

  // Bytes of the longest member of a place's set.
  int64_t longest(int32_t place) {
    Set& set = sets_[this->set(place)];
    const auto& offsets = set.trie.row_offsets;
    if (set.longest < 0)
      for (int64_t row = 0; row + 1 < offsets.size; ++row)
        set.longest = std::max(set.longest, offsets[row + 1] - offsets[row]);
    return set.longest;
  }

  // The number of a place in a trie.
  int32_t place_of(int32_t set, int64_t state) {
    Table& index = sets_[set].index;
    const int64_t known = index.find(state);
    if (known != Table::kAbsent) return static_cast<int32_t>(known);
    const auto place = static_cast<int32_t>(first_ + static_cast<int64_t>(places_.size()));
    places_.push_back({set, state});
    index.set(state, place);
    return place;
  }

  static int64_t root(const cdec_trie& trie) {
    return trie.degree.size > 0 && trie.degree[0] == 0 ? kTail : 0;
  }
  static int64_t after_byte(const cdec_trie& trie, int64_t state, int32_t byte) {
    return stepped(trie, state, span_of(trie, state), byte);
  }
  static bool ends(const cdec_trie& trie, int64_t state) {
    return may_end(trie, span_of(trie, state));
  }

 private:
  struct Set {
    cdec_trie trie;
    Table index;  // state -> place
    int64_t longest = -1;  // bytes of a member, where that was asked for
  };
  struct Place {
    int32_t set;
    int64_t state;
  };
  const int32_t first_;
  std::pmr::memory_resource* memory_;
  std::vector<Set> sets_;
  std::pmr::vector<Place> places_;
};

}  // namespace cdec

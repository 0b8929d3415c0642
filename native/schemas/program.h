// The program of a schema: its columns, what is counted of them once, and its automata.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "cdec_native.h"
#include "member_sets.h"

namespace cdec::schemas {

// As cdec.core.schemas.program says.
constexpr uint8_t kFree = 1, kAbsorbing = 2;
constexpr int32_t kRegionRank = 1 << 30, kMostIndent = 64, kUsualEscapes = 256;
constexpr int64_t kLargest = int64_t{1} << 40;

constexpr int32_t kLastCodePoint = 0x10FFFF;

// A character in UTF-8.
struct Encoded {
  uint8_t bytes[4];
  int32_t size;

  explicit Encoded(int32_t code) : size(1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)) {
    for (int32_t at = size - 1; at > 0; --at, code >>= 6) bytes[at] = 0x80 | (code & 0x3F);
    bytes[0] = size == 1 ? code : (0xF00 >> size & 0xFF) | code;
  }
  operator std::span<const uint8_t>() const { return {bytes, static_cast<size_t>(size)}; }
};

// The numbers from one to another, which is left out.
struct Range {
  struct Number {
    int64_t value;
    int64_t operator*() const { return value; }
    void operator++() { ++value; }
    bool operator!=(Number other) const { return value != other.value; }
  };
  int64_t first, last;

  int64_t size() const { return last - first; }
  bool empty() const { return first == last; }
  Number begin() const { return {first}; }
  Number end() const { return {last}; }
};

inline Range range(cdec_i64 offsets, int64_t i) { return {offsets[i], offsets[i + 1]}; }

struct Program : cdec_schema {
  // Some slots of an object: single ones, required ones, the least rank of these.
  struct Slots {
    int32_t singles = 0, required = 0, first = kRegionRank;
  };

  Program(const cdec_schema& schema, std::pmr::memory_resource* memory)
      : cdec_schema(schema),
        slots(object_min.size),
        later(slot_single.size),
        blank(blank_start[0]),
        layout(indent[0] & ~kUsualEscapes),
        few_escapes(indent[0] & kUsualEscapes),
        has_distinct(holds_one(array_distinct) || holds_one(object_distinct)),
        sets(schema.state_label.size, memory) {
    for (int64_t object = 0; object < object_min.size; ++object) count(object);
  }

  int64_t slot_count(int32_t object) const { return range(object_slot_offsets, object).size(); }

  // The state of an automaton, or the place in a set, after a byte; -1 where there is none.
  int32_t step(int32_t state, int32_t byte) const {
    if (sets.is_place(state)) return sets.step(state, byte);
    const auto [first, last] = range(state_edges, state);
    const int64_t edge =
        std::lower_bound(edge_high.at + first, edge_high.at + last, byte) - edge_high.at;
    return edge < last && edge_low[edge] <= byte ? edge_target[edge] : -1;
  }

  // Where the members of an alternative of strings begin: in an automaton or a set. -1: nowhere.
  int32_t string_begin(int64_t string) const {
    const int32_t start = string_start[string];
    return start >= 0 ? start : sets.start(-1 - int64_t{start});
  }

  // Whether a string may end in a state.
  bool is_string(int32_t state) const {
    return sets.is_place(state) ? sets.is_member(state) : state_label[state] >= 0;
  }

  // How many tokens an alternative of strings may have; -1 where any number.
  int32_t most_tokens(int32_t string) const {
    return string_tokens.empty() ? -1 : string_tokens[string];
  }

  // What is free behind a state of strings or keys.
  uint8_t free_behind(int32_t state) const { return sets.is_place(state) ? 0 : state_free[state]; }

  // Visits ranges of bytes that lead on from a state, ascending.
  template <class Visit>
  void each_edge(int32_t state, Visit&& visit) const {
    if (sets.is_place(state)) {
      const ByteSet bytes = sets.bytes(state);
      for (int32_t byte = 0; byte < 256; ++byte)
        if (bytes[byte]) visit(byte, byte);
      return;
    }
    for (const int64_t edge : range(state_edges, state)) visit(edge_low[edge], edge_high[edge]);
  }

  std::vector<Slots> slots;  // of each object, all
  std::vector<Slots> later;  // of each slot of an ordered object, those of a higher rank
  int32_t blank;             // state of the blanks before any
  int32_t layout;            // `indent` without kUsualEscapes
  bool few_escapes;
  bool has_distinct;         // whether some array or object has what must differ
  std::vector<int32_t> string_tokens;  // by alternative of strings; empty where none has so few
  // subtle: what is read of it depends on no call before; places are numbered as they are met.
  mutable MemberSets sets;

 private:
  static bool holds_one(cdec_u8 bits) {
    return std::find(bits.at, bits.at + bits.size, 1) != bits.at + bits.size;
  }

  // Counts slots by rank, from the last to the first.
  void count(int64_t object) {
    std::vector<int64_t> order(slot_count(object));
    std::iota(order.begin(), order.end(), object_slot_offsets[object]);
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](int64_t slot) { return slot_rank[slot]; });
    Slots& seen = slots[object];
    for (size_t first = 0, next; first < order.size(); first = next) {
      const Slots behind = seen;
      for (next = first; next < order.size(); ++next) {
        const int64_t slot = order[next];
        if (slot_rank[slot] != slot_rank[order[first]]) break;
        later[slot] = behind;
        seen.singles += slot_single[slot];
        if (!slot_single[slot] || !slot_required[slot]) continue;
        ++seen.required;
        seen.first = slot_rank[slot];
      }
    }
  }
};

}  // namespace cdec::schemas

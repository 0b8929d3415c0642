// The program of a schema: its columns, what is counted of them once, and its automata.
#pragma once

#include <cstdint>
#include <vector>

#include "cdec_native.h"

namespace cdec::schemas {

// As cdec.core.schemas.program says.
constexpr uint8_t kFree = 1, kAbsorbing = 2;
constexpr int32_t kRegionRank = 1 << 30, kMostIndent = 64, kUsualEscapes = 256;
constexpr int64_t kLargest = int64_t{1} << 40;

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

  explicit Program(const cdec_schema &schema);

  int64_t slot_count(int32_t object) const { return range(object_slot_offsets, object).size(); }

  // The state of an automaton after a byte, -1 where there is none.
  int32_t step(int32_t state, int32_t byte) const;

  std::vector<Slots> slots;  // of each object, all
  std::vector<Slots> later;  // of each slot of an ordered object, those of a higher rank
  int32_t blank;             // state of the blanks before any
  int32_t layout;            // `indent` without kUsualEscapes
  bool few_escapes;

 private:
  void count(int64_t object);
};

}  // namespace cdec::schemas

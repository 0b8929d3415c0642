// How far arrays and objects are: what stood there, as far as it matters, and what may still come.
//
// A *progress* is an interned list. Of an object: the numbers that `Counted` names, its counters,
// and the bits of the single slots seen (ordered objects: none); of an array: its elements so far
// and its counters. Numbers stop where they no longer matter. Behind these stand, ascending, what
// may not come again: texts of keys, values of elements. -1 is none: what was asked for cannot be
// completed.
#pragma once

#include <algorithm>
#include <span>

#include "lists.h"
#include "program.h"

namespace cdec::schemas {

struct Paused {};  // thrown once something new is remembered, so that the next call gets further
struct StatesFull {};  // states and steps have passed their bound

// The work of a call, which comes back for signals and other threads when it has computed for long.
struct Work {
  static constexpr int64_t kMost = 4'000'000;  // about a tenth of a second
  int64_t spent = 0;  // alternatives, slots and edges that were looked at, and rows
  bool is_over() const { return spent >= kMost; }
};

// Of the progress of an object; `kCount` of that of an array, too, whose counters follow it.
enum Counted : int64_t {
  kCount,    // keys or elements so far
  kRank,     // ordered objects: of the last key
  kMissing,  // required slots to come
  kLeft,     // single slots that may come
  kNext,     // ordered objects: the least rank of a required slot to come
  kCounters
};

class Progresses {
 public:
  using Numbers = std::span<const int64_t>;

  Progresses(const Program& program, Work& work, std::pmr::memory_resource* memory)
      : p(program), work_(work), lists_(memory), stamps_(program.state_label.size) {}

  Numbers operator[](int32_t progress) const { return lists_[progress]; }
  bool holds(int64_t progress) const { return lists_.holds(progress); }

  int32_t array_start(int32_t array) {
    built_.assign(array_length(array), 0);
    return static_cast<int32_t>(lists_.intern(built_));
  }

  // After an element of a choice.
  int32_t array_after(int32_t array, int32_t progress, int64_t choice) {
    const Numbers old = lists_[progress];
    built_.assign(old.begin(), old.end());
    for (const int64_t at : range(p.choice_counter_offsets, choice))
      ++built_[1 + p.choice_counters[at]];
    const Range counters = range(p.array_counter_offsets, array);
    int64_t lacking = 0;
    for (const int64_t counter : counters) {
      int64_t& count = built_[1 + counter - counters.first];
      const int64_t least = p.array_counter_min[counter], most = p.array_counter_max[counter];
      if (most >= 0 && count > most) return -1;
      lacking += std::max<int64_t>(least - count, 0);
      if (most < 0) count = std::min(count, least);
    }
    int64_t& count = built_[kCount];
    ++count;
    const int64_t room = capacity(array);
    if (room < 0 || lacking > room || count + room < p.array_min[array]) return -1;
    if (p.array_max[array] < 0) {
      const int64_t rest = range(p.array_position_offsets, array).size() - 1;
      count = std::min(count, std::max(rest, p.array_min[array]));
    }
    return static_cast<int32_t>(lists_.intern(built_));
  }

  bool array_may_end(int32_t array, int32_t progress) const {
    const Numbers numbers = lists_[progress];
    bool is_full = numbers[kCount] >= p.array_min[array];
    const Range counters = range(p.array_counter_offsets, array);
    for (const int64_t counter : counters)
      is_full &= numbers[1 + counter - counters.first] >= p.array_counter_min[counter];
    return is_full;
  }

  // The position of the next element.
  int64_t position(int32_t array, int32_t progress) const {
    const auto [first, last] = range(p.array_position_offsets, array);
    return std::min(first + lists_[progress][kCount], last - 1);
  }

  int32_t object_start(int32_t object) {
    built_.assign(object_length(object), 0);
    built_[kRank] = -1;
    built_[kMissing] = p.slots[object].required;
    built_[kLeft] = p.slots[object].singles;
    built_[kNext] = p.slots[object].first;
    return static_cast<int32_t>(lists_.intern(built_));
  }

  // After a key and the choice of its value; `text` is the key where it may not come again, else
  // -1.
  int32_t object_after(int32_t object, int32_t progress, int64_t slot, int64_t choice,
                       int32_t text) {
    const Numbers old = lists_[progress];
    if (!fits(object, old, slot, choice)) return -1;
    built_.assign(old.begin(), old.end());
    const int64_t own = p.object_slot_offsets[object] + slot;
    ++built_[kCount];
    if (p.object_max[object] < 0) built_[kCount] = std::min(built_[kCount], p.object_min[object]);
    if (p.object_ordered[object]) {
      built_[kRank] = p.slot_rank[own];
      built_[kMissing] = p.later[own].required;
      built_[kLeft] = p.later[own].singles;
      built_[kNext] = p.later[own].first;
    } else if (p.slot_single[own]) {
      built_[kMissing] -= p.slot_required[own];
      --built_[kLeft];
      int64_t& seen = built_[kCounters + object_counters(object) + (slot >> 6)];
      seen = static_cast<int64_t>(static_cast<uint64_t>(seen) | uint64_t{1} << (slot & 63));
    }
    add_choice(object, choice);
    if (text >= 0) add_used(object_length(object), text);
    return static_cast<int32_t>(lists_.intern(built_));
  }

  bool object_may_end(int32_t object, int32_t progress) const {
    const Numbers numbers = lists_[progress];
    bool is_full = numbers[kMissing] == 0 && numbers[kCount] >= p.object_min[object];
    const Range counters = range(p.object_counter_offsets, object);
    for (const int64_t counter : counters)
      is_full &= numbers[kCounters + counter - counters.first] >= p.object_counter_min[counter];
    return is_full;
  }

  // Whether from a state of an object's keys one that may come can be spelled.
  bool key_may_come(int32_t object, int32_t progress, int32_t key) {
    const Numbers numbers = lists_[progress];
    const int32_t singles = p.slots[object].singles, last = std::min(p.state_high[key], singles);
    for (int32_t slot = p.state_low[key]; slot < last; ++slot)
      if (slot_fits(object, numbers, slot)) return true;
    if (!p.state_open[key]) return false;
    const int64_t fitting = fitting_regions(object, numbers);
    if (fitting == 0 || fitting == p.slot_count(object) - singles) return fitting > 0;
    return reaches(object, numbers, key);
  }

  // The slot of a finished key, if it may come.
  int64_t slot_of(int32_t object, int32_t progress, int32_t key) {
    const int64_t slot = p.state_label[key];
    if (slot < 0 || slot >= p.slot_count(object)) return -1;
    return slot_fits(object, lists_[progress], slot) ? slot : -1;
  }

  // Whether a key of every region may come.
  bool regions_fit(int32_t object, int32_t progress) {
    const int64_t regions = p.slot_count(object) - p.slots[object].singles;
    return fitting_regions(object, lists_[progress]) == regions;
  }

  // The values that may not come again, and the texts of keys.
  Numbers array_values(int32_t array, int32_t progress) const {
    return lists_[progress].subspan(array_length(array));
  }
  Numbers object_texts(int32_t object, int32_t progress) const {
    return lists_[progress].subspan(object_length(object));
  }

  // With the value of one element more; none where it was there.
  int32_t with_value(int32_t array, int32_t progress, int32_t value) {
    if (std::ranges::binary_search(array_values(array, progress), value)) return -1;
    const Numbers old = lists_[progress];
    built_.assign(old.begin(), old.end());
    add_used(array_length(array), value);
    return static_cast<int32_t>(lists_.intern(built_));
  }

  // As if nothing had to differ.
  int32_t relaxed_array(int32_t array, int32_t progress) {
    return first_of(progress, array_length(array));
  }
  int32_t relaxed_object(int32_t object, int32_t progress) {
    return first_of(progress, object_length(object));
  }

 private:
  int64_t array_length(int32_t array) const {
    return 1 + range(p.array_counter_offsets, array).size();
  }
  int64_t object_counters(int32_t object) const {
    return range(p.object_counter_offsets, object).size();
  }

  int64_t object_length(int32_t object) const {
    const int64_t words = p.object_ordered[object] ? 0 : (p.slots[object].singles + 63) >> 6;
    return kCounters + object_counters(object) + words;
  }

  // How often a choice can still be used, by the counters of the progress that is made.
  int64_t left(int32_t array, int64_t choice) const {
    int64_t left = kLargest;
    for (const int64_t at : range(p.choice_counter_offsets, choice)) {
      const int32_t counter = p.choice_counters[at];
      const int64_t most = p.array_counter_max[p.array_counter_offsets[array] + counter];
      if (most >= 0) left = std::min(left, most - built_[1 + counter]);
    }
    return left;
  }

  // How many elements may still come behind the progress that is made.
  int64_t capacity(int32_t array) const {
    const int64_t most = p.array_max[array], done = built_[kCount];
    const int64_t capacity = most < 0 ? kLargest : most - done;
    const Range positions = range(p.array_position_offsets, array);
    const int64_t rest = positions.last - 1, next = std::min(positions.first + done, rest);
    const bool is_counted = array_length(array) > 1;
    for (int64_t position = next; is_counted && position < rest; ++position) {
      int64_t available = 0;
      for (const int64_t choice : range(p.position_choice_offsets, position))
        available = std::max(available, left(array, choice));
      if (available == 0) return std::min(capacity, position - next);
    }
    int64_t total = 0;
    for (const int64_t choice : range(p.position_choice_offsets, rest)) {
      total += is_counted ? left(array, choice) : kLargest;
      if (total >= kLargest) return capacity;
    }
    return std::min(capacity, rest - next + total);
  }

  // Whether a single slot was used; of ordered objects the ranks say that.
  bool is_seen(int32_t object, Numbers numbers, int64_t slot) const {
    if (p.object_ordered[object]) return false;
    return numbers[kCounters + object_counters(object) + (slot >> 6)] >> (slot & 63) & 1;
  }

  // What the counters lack after one more choice; -1 where one would pass its maximum.
  int64_t lacking(int32_t object, Numbers numbers, int64_t choice) const {
    const Range counters = range(p.object_counter_offsets, object);
    int64_t lacking = 0;
    for (const int64_t counter : counters) {
      const int64_t count = numbers[kCounters + counter - counters.first];
      lacking += std::max<int64_t>(p.object_counter_min[counter] - count, 0);
    }
    for (const int64_t at : range(p.choice_counter_offsets, choice)) {
      const int64_t count = numbers[kCounters + p.choice_counters[at]];
      const int64_t counter = counters.first + p.choice_counters[at];
      const int64_t most = p.object_counter_max[counter];
      if (most >= 0 && count >= most) return -1;
      lacking -= count < p.object_counter_min[counter];
    }
    return lacking;
  }

  // Whether an object can be completed after one more key, of a slot by its number within the
  // object.
  bool fits(int32_t object, Numbers numbers, int64_t slot, int64_t choice) {
    ++work_.spent;
    const int64_t own = p.object_slot_offsets[object] + slot;
    const bool is_single = p.slot_single[own];
    int64_t missing = numbers[kMissing], left = numbers[kLeft];
    if (p.object_ordered[object]) {
      const int32_t rank = p.slot_rank[own];
      if (rank > numbers[kNext] || rank < numbers[kRank] || (is_single && rank == numbers[kRank]) ||
          (!is_single && missing > 0))
        return false;
      missing = p.later[own].required;
      left = p.later[own].singles;
    } else if (is_single) {
      missing -= p.slot_required[own];
      --left;
    }
    const int64_t lacks = lacking(object, numbers, choice);
    if (lacks < 0) return false;
    const int64_t count = numbers[kCount] + 1, most = p.object_max[object];
    if (most >= 0 && count + missing + lacks > most) return false;
    return p.slot_count(object) > p.slots[object].singles || count + left >= p.object_min[object];
  }

  // Whether a key of a slot may come.
  bool slot_fits(int32_t object, Numbers numbers, int64_t slot) {
    const int64_t own = p.object_slot_offsets[object] + slot;
    if (p.slot_single[own] && is_seen(object, numbers, slot)) return false;
    for (const int64_t choice : range(p.slot_choice_offsets, own))
      if (fits(object, numbers, slot, choice)) return true;
    return false;
  }

  int64_t fitting_regions(int32_t object, Numbers numbers) {
    int64_t fitting = 0;
    for (int64_t slot = p.slots[object].singles; slot < p.slot_count(object); ++slot)
      fitting += slot_fits(object, numbers, slot);
    return fitting;
  }

  // Walks the automaton of keys to a region that may come: only some of them may.
  bool reaches(int32_t object, Numbers numbers, int32_t key) {
    ++stamp_;
    open_.assign(1, key);
    while (!open_.empty()) {
      const int32_t state = open_.back();
      open_.pop_back();
      if (stamps_[state] == stamp_) continue;
      stamps_[state] = stamp_;
      const int32_t label = p.state_label[state];
      const bool is_region = p.slots[object].singles <= label && label < p.slot_count(object);
      if (is_region && slot_fits(object, numbers, label)) return true;
      const Range edges = range(p.state_edges, state);
      work_.spent += edges.size();
      for (const int64_t edge : edges) open_.push_back(p.edge_target[edge]);
    }
    return false;
  }

  // Counts a choice in the progress that is made.
  void add_choice(int32_t object, int64_t choice) {
    for (const int64_t at : range(p.choice_counter_offsets, choice)) {
      int64_t& count = built_[kCounters + p.choice_counters[at]];
      const int64_t counter = p.object_counter_offsets[object] + p.choice_counters[at];
      ++count;
      if (p.object_counter_max[counter] < 0) count = std::min(count, p.object_counter_min[counter]);
    }
  }

  // Adds a text or value to the progress that is made, behind its numbers.
  void add_used(int64_t length, int32_t used) {
    built_.insert(std::upper_bound(built_.begin() + length, built_.end(), used), used);
  }

  int32_t first_of(int32_t progress, int64_t length) {
    const Numbers old = lists_[progress].first(length);
    built_.assign(old.begin(), old.end());
    return static_cast<int32_t>(lists_.intern(built_));
  }

  const Program& p;
  Work& work_;
  Lists<int64_t> lists_;
  std::vector<int64_t> built_;   // the progress that is made
  std::vector<int64_t> stamps_;  // of states: the last walk that came there
  std::vector<int32_t> open_;    // of the walk under way: states to go on from
  int64_t stamp_ = 0;
};

}  // namespace cdec::schemas

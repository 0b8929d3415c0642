// How far arrays and objects are: what stood there, as far as it matters, and what may still come.
//
// A *progress* is an interned list. Of an object: the numbers that `Counted` names, its counters, and
// the bits of the single slots seen (ordered objects: none); of an array: its elements so far and its
// counters. Numbers stop where they no longer matter. Behind these stand, ascending, the texts that
// may not come again. -1 is none: what was asked for cannot be completed.
#pragma once

#include <span>

#include "lists.h"
#include "program.h"
#include "work.h"

namespace cdec::schemas {

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

  Progresses(const Program &program, Work &work, std::pmr::memory_resource *memory)
      : p(program), work_(work), lists_(memory), stamps_(program.state_label.size) {}

  Numbers operator[](int32_t progress) const { return lists_[progress]; }
  bool holds(int64_t progress) const { return lists_.holds(progress); }

  int32_t array_start(int32_t array);
  // After an element of a choice.
  int32_t array_after(int32_t array, int32_t progress, int64_t choice);
  bool array_may_end(int32_t array, int32_t progress) const;
  // The position of the next element.
  int64_t position(int32_t array, int32_t progress) const;

  int32_t object_start(int32_t object);
  // After a key and the choice of its value; `text` is the key where it may not come again, else -1.
  int32_t object_after(int32_t object, int32_t progress, int64_t slot, int64_t choice, int32_t text);
  bool object_may_end(int32_t object, int32_t progress) const;
  // Whether from a state of an object's keys one that may come can be spelled.
  bool key_may_come(int32_t object, int32_t progress, int32_t key);
  // The slot of a finished key, if it may come.
  int64_t slot_of(int32_t object, int32_t progress, int32_t key);
  // Whether a key of every region may come.
  bool regions_fit(int32_t object, int32_t progress);

  // The texts that may not come again.
  Numbers array_texts(int32_t array, int32_t progress) const {
    return lists_[progress].subspan(array_length(array));
  }
  Numbers object_texts(int32_t object, int32_t progress) const {
    return lists_[progress].subspan(object_length(object));
  }
  // With one text more, an element of the array; none where it was there.
  int32_t with_text(int32_t array, int32_t progress, int32_t text);

 private:
  int64_t array_length(int32_t array) const { return 1 + range(p.array_counter_offsets, array).size(); }
  int64_t object_counters(int32_t object) const { return range(p.object_counter_offsets, object).size(); }
  int64_t object_length(int32_t object) const;

  int64_t left(int32_t array, int64_t choice) const;
  int64_t capacity(int32_t array) const;

  bool is_seen(int32_t object, Numbers numbers, int64_t slot) const;
  int64_t lacking(int32_t object, Numbers numbers, int64_t choice) const;
  bool fits(int32_t object, Numbers numbers, int64_t slot, int64_t choice);
  bool slot_fits(int32_t object, Numbers numbers, int64_t slot);
  int64_t fitting_regions(int32_t object, Numbers numbers);
  bool reaches(int32_t object, Numbers numbers, int32_t key);
  void add_choice(int32_t object, int64_t choice);
  void add_text(int64_t length, int32_t text);

  const Program &p;
  Work &work_;
  Lists<int64_t> lists_;
  std::vector<int64_t> built_;   // the progress that is made
  std::vector<int64_t> stamps_;  // of states: the last walk that came there
  std::vector<int32_t> open_;    // of the walk under way: states to go on from
  int64_t stamp_ = 0;
};

}  // namespace cdec::schemas

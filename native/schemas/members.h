// Members of objects and arrays, and the ends of levels: what is awaited next, by every
// alternative.
#pragma once

#include "frames.h"

namespace cdec::schemas {

class Members : public Frames {
 public:
  using Frames::Frames;

 protected:
  // The frame in which a key begins, or is awaited; -1 where none may come.
  int32_t keys_of(int32_t frame, Phase phase) {
    const Frame at = this->frame(frame);
    const bool begins = phase == Phase::kKey;
    const bool is_distinct = at.value >= 0 || std::ranges::any_of(at.items, [&](const Item& item) {
                               return p.object_distinct[item.part];
                             });
    begin_frame(phase, at.parent, begins && is_distinct && !at.is_relaxed() ? 0 : kNone, at.value);
    for (const Item& item : at.items) {
      const int32_t key = p.object_key[item.part];
      if (key >= 0 && progresses.key_may_come(item.part, item.place, key))
        add({item.value, item.part, item.place, begins ? key : 0});
    }
    return end_frame();
  }

  // The frame behind a finished key: what is awaited by each choice of its slots.
  int32_t key_end(int32_t frame) {
    const Frame at = this->frame(frame);
    const int32_t value = at.value < 0 ? at.value : values.with_key(at.value, at.text);
    // A key of a value that is remembered stands there once.
    if (at.value >= 0 && value < 0) return -1;
    begin_frame(Phase::kObjectColon, at.parent, kNone, value);
    for (const Item& item : at.items) {
      const int64_t slot = progresses.slot_of(item.part, item.place, item.content);
      if (slot < 0) continue;
      const int64_t own = p.object_slot_offsets[item.part] + slot;
      const int32_t text = p.object_distinct[item.part] && !p.slot_single[own] ? at.text : kNone;
      if (text >= 0 &&
          std::ranges::binary_search(progresses.object_texts(item.part, item.place), text))
        continue;
      for (const int64_t choice : range(p.slot_choice_offsets, own)) {
        const int32_t after = progresses.object_after(item.part, item.place, slot, choice, text);
        if (after >= 0) add({item.value, item.part, after, p.choice_value[choice]});
      }
    }
    return end_frame();
  }

  // The frame that awaits an array's next element; -1 where none may come.
  int32_t elements_of(int32_t frame) {
    const Frame at = this->frame(frame);
    begin_frame(Phase::kArrayValue, at.parent, kNone, at.value);
    for (const Item& item : at.items) {
      const int64_t position = progresses.position(item.part, item.place);
      const Range choices = range(p.position_choice_offsets, position);
      work_.spent += choices.size();
      for (const int64_t choice : choices) {
        const int32_t after = progresses.array_after(item.part, item.place, choice);
        if (after >= 0) add({item.value, item.part, after, p.choice_value[choice]});
      }
    }
    return end_frame();
  }

  // The frame outside after a level has ended; -1 where it may not end.
  int32_t closed(int32_t frame) {
    const Frame at = this->frame(frame), outside = this->frame(at.parent);
    ended_.clear();
    // Items ascend by their values.
    for (const Item& item : at.items)
      if ((ended_.empty() || ended_.back() != item.value) && item_may_end(at.phase, item))
        ended_.push_back(item.value);
    const Phase phase = outside.phase == Phase::kRootValue     ? Phase::kRootDone
                        : outside.phase == Phase::kObjectValue ? Phase::kObjectNext
                                                               : Phase::kArrayNext;
    const int32_t value = value_of(at);
    begin_frame(phase, outside.parent, kNone, value_with(outside, value));
    for (const Item& item : outside.items) {
      if (!std::ranges::binary_search(ended_, item.content)) continue;
      int32_t progress = item.place;
      if (value >= 0 && is_distinct(outside.phase, item))
        progress = progresses.with_value(item.part, progress, value);
      if (progress >= 0) add({item.value, item.part, progress, 0});
    }
    return end_frame();
  }

  // Whether the items of an alternative must differ.
  bool is_distinct(Phase phase, const Item& item) const {
    return phase == Phase::kArrayValue && p.array_distinct[item.part];
  }
  bool has_distinct(const Frame& at) const {
    return std::ranges::any_of(at.items,
                               [&](const Item& item) { return is_distinct(at.phase, item); });
  }

 private:
  // The value of a level that ends, where it is remembered.
  int32_t value_of(const Frame& at) {
    if (at.phase == Phase::kString) return at.text < 0 ? kNone : values.string(at.text);
    if (at.phase == Phase::kRaw) return at.text < 0 ? kNone : values.raw(at.text);
    return at.value;
  }

  // What is remembered of the level outside, with one value more.
  int32_t value_with(const Frame& outside, int32_t value) {
    if (outside.value < 0) return outside.value;
    return outside.phase == Phase::kArrayValue ? values.with_element(outside.value, value)
                                               : values.with_value(outside.value, value);
  }

  std::vector<int32_t> ended_;  // values that a level may be closed as
};

}  // namespace cdec::schemas

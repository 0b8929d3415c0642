// Masks by number, the newest of them.
#pragma once

#include <memory>
#include <vector>

#include "table.h"

namespace cdec {

class KeptMasks {
 public:
  KeptMasks(int64_t words, int64_t most) : words_(words), most_(most) {}

  const int32_t *find(int64_t number) const {
    const int64_t slot = slots_.find(number);
    return slot == Table::kAbsent ? nullptr : masks_[slot].words.get();
  }

  // Room for the mask of a number that has none; the oldest is forgotten where there are too many.
  // Null where none is kept. Numbers are 0 and above.
  int32_t *add(int64_t number) {
    if (most_ < 1) return nullptr;
    int64_t slot = static_cast<int64_t>(masks_.size());
    if (slot < most_) {
      masks_.push_back({number, std::make_unique<int32_t[]>(words_)});
    } else {
      slot = oldest_;
      oldest_ = (oldest_ + 1) % most_;
      slots_.erase(masks_[slot].number);
      masks_[slot].number = number;
    }
    slots_.set(number, slot);
    return masks_[slot].words.get();
  }

  void clear() {
    slots_.clear();
    masks_.clear();
    oldest_ = 0;
  }

  int64_t words() const { return words_; }
  int64_t bytes() const { return static_cast<int64_t>(masks_.size()) * words_ * 4; }

 private:
  struct Mask {
    int64_t number;
    std::unique_ptr<int32_t[]> words;
  };

  const int64_t words_, most_;
  Table slots_{std::pmr::get_default_resource()};  // number -> slot
  std::vector<Mask> masks_;                        // by slot
  int64_t oldest_ = 0;                             // slot
};

}  // namespace cdec

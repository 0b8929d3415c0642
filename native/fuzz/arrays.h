// What a fuzzer's bytes say: arrays one after another, each a length and its elements.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "cdec_native.h"

namespace fuzz {

// Reads arrays from bytes; at their end all arrays are empty. What was read lives as long as this,
// each array in memory of its own, so that AddressSanitizer sees a read outside.
class Arrays {
 public:
  Arrays(const uint8_t *data, size_t size) : data_(data), left_(size) {}

  template <class S>
  S read() {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(S::at)>>;
    const size_t count = std::min<size_t>(number(), left_ / sizeof(T));
    std::vector<uint8_t> &held = held_.emplace_back(data_, data_ + count * sizeof(T));
    skip(held.size());
    return S{reinterpret_cast<T *>(held.data()), static_cast<int64_t>(count)};
  }

  uint16_t number() {
    uint16_t found = 0;
    const size_t bytes = std::min(left_, sizeof found);
    if (bytes) std::memcpy(&found, data_, bytes);
    skip(bytes);
    return found;
  }

 private:
  void skip(size_t bytes) { data_ += bytes, left_ -= bytes; }

  const uint8_t *data_;
  size_t left_;
  std::deque<std::vector<uint8_t>> held_;
};

}  // namespace fuzz

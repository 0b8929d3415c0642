// Packed masks of tokens: bit t % 32 of word t / 32.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "cdec_native.h"

namespace cdec {

inline void set_bit(uint32_t *words, int64_t token) { words[token >> 5] |= 1u << (token & 31); }

inline bool has_bit(const uint32_t *words, int64_t size, int64_t token) {
  return (token >> 5) < size && (words[token >> 5] >> (token & 31)) & 1;
}

// Copies a mask into another, cut to its length or filled up with zeros.
inline void copy_words(const uint32_t *source, int64_t size, uint32_t *target, int64_t width) {
  const int64_t words = std::min(size, width);
  std::copy_n(source, words, target);
  std::fill(target + words, target + width, 0u);
}

}  // namespace cdec

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

// Whether a token is one of some, as of the few end ids; without branches.
inline bool contains(cdec_i64 tokens, int64_t token) {
  bool found = false;
  for (int64_t i = 0; i < tokens.size; ++i) found |= tokens[i] == token;
  return found;
}

// Sets the bits of tokens, as far as the mask has them.
inline void set_bits(uint32_t *words, int64_t size, cdec_i64 tokens) {
  for (int64_t i = 0; i < tokens.size; ++i)
    if (tokens[i] >= 0 && tokens[i] >> 5 < size) set_bit(words, tokens[i]);
}

// Copies a mask into another, cut to its length or filled up with zeros.
inline void copy_words(const uint32_t *source, int64_t size, uint32_t *target, int64_t width) {
  const int64_t words = std::min(size, width);
  std::copy_n(source, words, target);
  std::fill(target + words, target + width, 0u);
}

}  // namespace cdec

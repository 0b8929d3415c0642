// Uniforms of numpy's PCG64 of many seeds: PCG XSL RR 128/64 (O'Neill 2014), seeded as numpy's
// SeedSequence seeds it.
#include <array>

#include "cdec_native.h"

namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr Wide wide(uint64_t high, uint64_t low) { return Wide{high} << 64 | low; }

// One of the two hashes of SeedSequence: its constant changes with every word.
class Hash {
 public:
  constexpr Hash(uint32_t constant, uint32_t factor) : constant_(constant), factor_(factor) {}

  uint32_t operator()(uint32_t word) {
    word ^= constant_;
    constant_ *= factor_;
    word *= constant_;
    return word ^ word >> 16;
  }

 private:
  uint32_t constant_, factor_;
};

uint32_t mixed(uint32_t x, uint32_t y) {
  const uint32_t word = 0xca01f9ddu * x - 0x4973f715u * y;
  return word ^ word >> 16;
}

// The first eight words of SeedSequence(seed).
std::array<uint32_t, 8> words_of(uint64_t seed) {
  Hash gather(0x43b0d7e5u, 0x931e8875u);
  std::array<uint32_t, 4> pool{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
  for (uint32_t &word : pool) word = gather(word);
  for (std::size_t from = 0; from < pool.size(); ++from)
    for (std::size_t to = 0; to < pool.size(); ++to)
      if (from != to) pool[to] = mixed(pool[to], gather(pool[from]));
  Hash spread(0x8b51f9ddu, 0x58f38dedu);
  std::array<uint32_t, 8> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = spread(pool[i % pool.size()]);
  return words;
}

class Pcg64 {
 public:
  explicit Pcg64(uint64_t seed) {
    const std::array<uint32_t, 8> words = words_of(seed);
    const auto pair = [&](std::size_t i) { return uint64_t{words[i + 1]} << 32 | words[i]; };
    increment_ = wide(pair(4), pair(6)) << 1 | 1;
    state_ = (increment_ + wide(pair(0), pair(2))) * kFactor + increment_;
  }

  // Leaves `steps` outputs out, in 64 steps at most (Brown 1994).
  void advance(uint64_t steps) {
    Wide factor = 1, sum = 0;
    for (Wide f = kFactor, s = increment_; steps; steps >>= 1) {
      if (steps & 1) {
        factor *= f;
        sum = sum * f + s;
      }
      s *= f + 1;
      f *= f;
    }
    state_ = factor * state_ + sum;
  }

  double uniform() {
    state_ = state_ * kFactor + increment_;
    const uint64_t high = static_cast<uint64_t>(state_ >> 64);
    const uint64_t word = high ^ static_cast<uint64_t>(state_);
    const unsigned turn = static_cast<unsigned>(high >> 58);
    return static_cast<double>((word >> turn | word << (-turn & 63)) >> 11) * 0x1p-53;
  }

 private:
  static constexpr Wide kFactor = wide(0x2360ed051fc65da4u, 0x4385df649fccf645u);
  Wide state_, increment_;
};

}  // namespace

int64_t cdec_fill_uniforms(cdec_u64 seeds, cdec_u64 starts, cdec_i64 rows,
                           cdec_f64_rows_out values) {
  for (int64_t i = 0; i < seeds.size; ++i) {
    Pcg64 numbers(seeds[i]);
    numbers.advance(starts[i]);
    double *row = values[rows[i]];
    for (int64_t j = 0; j < values.width; ++j) row[j] = numbers.uniform();
  }
  return 0;
}

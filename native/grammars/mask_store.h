// Masks, stored once each, combined, and found again by what was combined.
#pragma once

#include "bits.h"
#include "grammar.h"
#include "memory.h"
#include "table.h"

namespace cdec::grammars {

class MaskStore {
 public:
  MaskStore(const Grammar &grammar, std::pmr::memory_resource *memory)
      : grammar_(grammar),
        stride_((grammar.words + 15) / 16 * 8),
        memory_(memory),
        masks_(memory),
        index_(memory),
        pairs_(memory),
        joined_(memory) {}
  ~MaskStore();
  MaskStore(const MaskStore &) = delete;

  // The words of a mask that is made; a mask, a number, once it is kept.
  using Row = std::vector<uint32_t>;
  Row row() const { return Row(2 * stride_, 0); }
  void add_token(Row &row, int64_t token) const {
    if (0 <= token && token < grammar_.vocabulary) set_bit(row.data(), token);
  }
  // Adds the tokens of a group.
  void add_group(Row &row, int64_t group) const;
  // The number of the mask in a row, new or known.
  int64_t keep(const Row &row);

  const uint32_t *words(int64_t mask) const { return masks_[mask].words; }
  int64_t size() const { return static_cast<int64_t>(masks_.size()); }
  // How many tokens a mask has.
  int64_t count(int64_t mask) { return counted(mask).count; }
  // The only token of a mask, or -1.
  int64_t only(int64_t mask) { return counted(mask).only; }
  // mask | (others & ~taken), `taken` a dense row or -1. O(1) if done before.
  int64_t join(int64_t mask, int64_t taken, int64_t others);
  // A token of a group, -1 if it has none.
  int64_t one_of(int64_t group) const;

 private:
  struct Mask {
    uint32_t *words = nullptr;
    int32_t count = -1, only = -1;  // once they are asked for
  };
  const Mask &counted(int64_t mask);
  // A dense row of the artifact, null where it is damaged.
  const uint32_t *dense(int64_t row) const;
  int64_t hash(const uint32_t *words) const;
  static constexpr size_t kAlignment = 64;
  size_t bytes() const { return stride_ * 8; }

  const Grammar &grammar_;
  const int64_t stride_;  // of a row, in words of 64 bits
  std::pmr::memory_resource *memory_;
  std::pmr::vector<Mask> masks_;
  Table index_;   // hash of the words -> mask
  Table pairs_;   // (mask, taken row) -> pair
  Table joined_;  // (pair, mask) -> mask
};

}  // namespace cdec::grammars

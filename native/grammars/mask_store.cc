#include "mask_store.h"

namespace cdec::grammars {

MaskStore::~MaskStore() {
  for (const Mask &mask : masks_)
    if (mask.words) memory_->deallocate(mask.words, bytes(), kAlignment);
}

const uint32_t *MaskStore::dense(int64_t row) const {
  const cdec_i32 &masks = grammar_.columns.dense_masks;
  if (row < 0 || (row + 1) * grammar_.words > masks.size) return nullptr;
  return reinterpret_cast<const uint32_t *>(masks.at) + row * grammar_.words;
}

void MaskStore::add_group(Row &row, int64_t group) const {
  const cdec_grammar &columns = grammar_.columns;
  if (columns.group_dense[group] < 0) {
    const Range range = range_of(columns.group_tokens, group, columns.tokens.size);
    for (int64_t i = range.begin; i < range.end; ++i) add_token(row, columns.tokens[i]);
  } else if (const uint32_t *source = dense(columns.group_dense[group])) {
    for (int64_t i = 0; i < grammar_.words; ++i) row[i] |= source[i];
  }
}

int64_t MaskStore::one_of(int64_t group) const {
  const cdec_grammar &columns = grammar_.columns;
  if (columns.group_dense[group] < 0) {
    const Range range = range_of(columns.group_tokens, group, columns.tokens.size);
    return range.size() > 0 ? columns.tokens[range.begin] : -1;
  }
  const uint32_t *words = dense(columns.group_dense[group]);
  for (int64_t i = 0; words && i < grammar_.words; ++i)
    if (words[i]) return 32 * i + std::countr_zero(words[i]);
  return -1;
}

// Four multiplicative hashes side by side.
int64_t MaskStore::hash(const uint32_t *words) const {
  int64_t lanes[4] = {1, 2, 3, 4};
  for (int64_t i = 0; i < stride_; i += 4) {
    int64_t block[4];
    std::memcpy(block, words + 2 * i, sizeof block);
    for (int lane = 0; lane < 4; ++lane) lanes[lane] = mixed(lanes[lane] ^ block[lane]);
  }
  return usable(mixed(mixed(mixed(mixed(lanes[0]) ^ lanes[1]) ^ lanes[2]) ^ lanes[3]));
}

int64_t MaskStore::keep(const Row &row) {
  int64_t key = hash(row.data());
  for (int64_t known; (known = index_.find(key)) != Table::kAbsent; key = next_key(key))
    if (std::memcmp(words(known), row.data(), bytes()) == 0) return known;
  masks_.emplace_back();
  masks_.back().words = static_cast<uint32_t *>(memory_->allocate(bytes(), kAlignment));
  std::memcpy(masks_.back().words, row.data(), bytes());
  index_.set(key, size() - 1);
  return size() - 1;
}

const MaskStore::Mask &MaskStore::counted(int64_t number) {
  Mask &mask = masks_[number];
  if (mask.count >= 0) return mask;
  mask.count = 0;
  for (int64_t i = 0; i < grammar_.words; ++i) {
    const uint32_t word = mask.words[i];
    if (word && mask.count == 0) mask.only = static_cast<int32_t>(32 * i + std::countr_zero(word));
    mask.count += std::popcount(word);
  }
  if (mask.count != 1) mask.only = -1;
  return mask;
}

int64_t MaskStore::join(int64_t mask, int64_t taken, int64_t others) {
  if (mask == others) return mask;
  const int64_t first = pack(mask, taken + 1);
  int64_t pair = pairs_.find(first);
  if (pair == Table::kAbsent) pairs_.set(first, pair = static_cast<int64_t>(pairs_.size()));
  const int64_t known = joined_.find(pack(pair, others));
  if (known != Table::kAbsent) return known;
  const uint32_t *own = words(mask), *other = words(others), *without = dense(taken);
  Row row(other, other + 2 * stride_);
  for (int64_t i = 0; without && i < grammar_.words; ++i) row[i] &= ~without[i];
  for (int64_t i = 0; i < 2 * stride_; ++i) row[i] |= own[i];
  const int64_t result = keep(row);
  joined_.set(pack(pair, others), result);
  return result;
}

}  // namespace cdec::grammars

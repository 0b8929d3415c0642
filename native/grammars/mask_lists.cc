#include "mask_lists.h"

namespace cdec::grammars {

int64_t StoredLists::find(std::span<const int64_t> list) {
  if (count_ == 0) return -1;
  if (indexed_ == 0) index_.reserve(count_);
  for (; indexed_ < count_; ++indexed_) {
    int64_t key = key_of((*this)[first_ + indexed_]);
    while (index_.find(key) != Table::kAbsent) key = next_key(key);
    index_.set(key, first_ + indexed_);
  }
  int64_t key = key_of(list);
  for (int64_t known; (known = index_.find(key)) != Table::kAbsent; key = next_key(key))
    if (std::ranges::equal((*this)[known], list)) return known;
  return -1;
}

template <class Union>
int64_t MaskLists::unite(int64_t a, int64_t b, int64_t kind, Union &&append_union) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  const int64_t known = known_of(a, b);
  if (known != Table::kAbsent) return known;
  begin(length(a) < 0 ? kind : tag(a));
  append_union(items(a), items(b));
  const int64_t result = end();
  note(a, b, result);
  return result;
}

int64_t MaskLists::merge(int64_t a, int64_t b) {
  return unite(a, b, kPending, [this](auto first, auto second) {
    std::ranges::set_union(first, second, std::back_inserter(written));
  });
}

int64_t MaskLists::either(int64_t a, int64_t b) {
  return unite(a, b, kAllowed, [this](auto first, auto second) {
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) append(first[i] | second[i]);
  });
}

}  // namespace cdec::grammars

// Interned lists: equal lists have one number, and stand one after another.
#pragma once

#include <algorithm>
#include <span>

#include "table.h"

namespace cdec {

inline int64_t hash_of(int64_t item) { return item; }

// The key of a list; others may have it as well.
template <class Item>
int64_t key_of(std::span<const Item> list) {
  int64_t key = static_cast<int64_t>(list.size());
  for (const Item &item : list) key = mixed(key ^ hash_of(item));
  return usable(key);
}

// An `Item` that is no integer has a `hash_of` and an operator ==.
template <class Item>
class Lists {
 public:
  explicit Lists(std::pmr::memory_resource *memory, Journal *journal = nullptr)
      : items_(memory), offsets_(1, 0, memory), index_(memory, journal) {}

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t item_count() const { return offsets_.back(); }
  bool holds(int64_t number) const { return 0 <= number && number < size(); }

  // subtle: valid until the next `add` or `intern`.
  std::span<const Item> operator[](int64_t number) const {
    return {items_.data() + offsets_[number], items_.data() + offsets_[number + 1]};
  }

  // The number of a list, which may not be a part of these lists; a new one if there is none.
  int64_t intern(std::span<const Item> list) {
    int64_t key = key_of(list);
    for (int64_t known; (known = index_.find(key)) != Table::kAbsent; key = next_key(key))
      if (std::ranges::equal((*this)[known], list)) return known;
    const int64_t number = add(list);
    index_.set(key, number);
    return number;
  }

  // Appends a list that is not looked for.
  int64_t add(std::span<const Item> list) {
    items_.resize(offsets_.back());  // what an addition that found no memory left
    items_.insert(items_.end(), list.begin(), list.end());
    offsets_.push_back(static_cast<int64_t>(items_.size()));
    return size() - 1;
  }

  // Forgets the lists from a number on; the journal has taken their keys back.
  void shorten(int64_t number) {
    offsets_.resize(number + 1);
    items_.resize(offsets_.back());
  }

  int64_t bytes() const {
    return static_cast<int64_t>(items_.capacity() * sizeof(Item) + offsets_.capacity() * 8) +
           index_.bytes();
  }

 private:
  std::pmr::vector<Item> items_;
  std::pmr::vector<int64_t> offsets_;
  Table index_;
};

}  // namespace cdec

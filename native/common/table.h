// Hash tables of int64 keys and values, and the journal that takes back what was stored in them.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace cdec {

// Spreads a key over 64 bits (multiplicative hashing).
inline int64_t mixed(int64_t key) {
  const uint64_t product = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u;
  return static_cast<int64_t>(product ^ (product >> 31));
}

// Two halves of a key or value.
inline int64_t pack(int64_t high, int64_t low) {
  return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low));
}
inline int64_t high_half(int64_t packed) { return packed >> 32; }
inline int32_t low_half(int64_t packed) { return static_cast<int32_t>(packed); }

// A hash as a key that a table can hold, and the key to try where another thing has that one.
inline int64_t usable(int64_t key) { return key == -1 ? 0 : key; }
inline int64_t next_key(int64_t key) { return usable(mixed(key ^ 1)); }

class Table;

// What stood in tables before they were written, while it is kept; `undo` writes it back.
class Journal {
 public:
  void begin() { is_kept_ = true; }
  void note(Table *table, int64_t key, int64_t before) {
    if (is_kept_) entries_.push_back({table, key, before});
  }
  inline void undo();
  void forget() {
    is_kept_ = false;
    entries_.clear();
  }

 private:
  struct Entry {
    Table *table;
    int64_t key, before;
  };
  bool is_kept_ = false;
  std::vector<Entry> entries_;
};

// Open addressing with linear probing, a power of two long, at most half full. The key kEmpty
// cannot be stored.
class Table {
 public:
  static constexpr int64_t kAbsent = -(int64_t{1} << 62), kEmpty = -1;

  explicit Table(std::pmr::memory_resource *memory, Journal *journal = nullptr)
      : entries_(kLeast, Entry{}, memory), journal_(journal) {}

  // The value of a key, kAbsent if it has none.
  int64_t find(int64_t key) const {
    const Entry &entry = entries_[place(key)];
    return entry.key == key ? entry.value : kAbsent;
  }

  // Begins to load what `find` of a key will look at.
  void prefetch(int64_t key) const { __builtin_prefetch(&entries_[mixed(key) & mask()]); }

  void set(int64_t key, int64_t value) {
    Entry *entry = &entries_[place(key)];
    const bool is_new = entry->key != key;
    if (is_new && 2 * (count_ + 1) > entries_.size()) {
      resize(2 * entries_.size());
      entry = &entries_[place(key)];
    }
    if (journal_) journal_->note(this, key, is_new ? kAbsent : entry->value);
    count_ += is_new;
    *entry = {key, value};
  }

  // Makes room for a number of keys at once.
  void reserve(size_t count) {
    size_t places = entries_.size();
    while (places < 2 * count) places *= 2;
    if (places > entries_.size()) resize(places);
  }

  // Forgets a key; entries behind it move up, so that probing stays right.
  void erase(int64_t key) {
    size_t hole = place(key);
    if (entries_[hole].key != key) return;
    for (size_t at = next(hole); entries_[at].key != kEmpty; at = next(at)) {
      const size_t home = mixed(entries_[at].key) & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = Entry{};
    --count_;
  }

  // Forgets everything, and gives the memory back.
  void clear() {
    std::pmr::vector<Entry> empty(kLeast, Entry{}, entries_.get_allocator());
    entries_.swap(empty);
    count_ = 0;
  }

  template <class Visit>
  void visit(Visit &&visit) const {
    for (const Entry &entry : entries_)
      if (entry.key != kEmpty) visit(entry.key, entry.value);
  }

  size_t size() const { return count_; }
  int64_t bytes() const { return static_cast<int64_t>(entries_.size() * sizeof(Entry)); }

 private:
  static constexpr size_t kLeast = 64;
  struct Entry {
    int64_t key = kEmpty, value = 0;
  };

  size_t mask() const { return entries_.size() - 1; }
  size_t next(size_t at) const { return (at + 1) & mask(); }

  // Where a key stands, or would go.
  size_t place(int64_t key) const {
    size_t at = mixed(key) & mask();
    while (entries_[at].key != key && entries_[at].key != kEmpty) at = next(at);
    return at;
  }

  void resize(size_t places) {
    std::pmr::vector<Entry> old(places, Entry{}, entries_.get_allocator());
    entries_.swap(old);
    for (const Entry &entry : old)
      if (entry.key != kEmpty) entries_[place(entry.key)] = entry;
  }

  std::pmr::vector<Entry> entries_;
  size_t count_ = 0;
  Journal *journal_;
};

void Journal::undo() {
  is_kept_ = false;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->before == Table::kAbsent)
      entry->table->erase(entry->key);
    else
      entry->table->set(entry->key, entry->before);
  }
  entries_.clear();
}

}  // namespace cdec

// Memory that is counted: what an engine holds, and the most that it may.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <new>

namespace cdec {

// Thrown where the most that may be held would be passed.
struct OverLimit : std::bad_alloc {};

// Of pmr containers. Beyond `most` bytes nothing is given: a status at the edge. What is a part of
// other memory counts there as well.
class CountedMemory : public std::pmr::memory_resource {
 public:
  explicit CountedMemory(int64_t most = INT64_MAX, CountedMemory *whole = nullptr)
      : most_(most), whole_(whole) {}
  int64_t bytes() const { return bytes_; }

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (static_cast<int64_t>(bytes) > most_ - bytes_) throw OverLimit();
    void *given = whole_ ? whole_->allocate(bytes, alignment)
                         : ::operator new(bytes, std::align_val_t(alignment));
    bytes_ += static_cast<int64_t>(bytes);
    return given;
  }
  void do_deallocate(void *given, size_t bytes, size_t alignment) override {
    bytes_ -= static_cast<int64_t>(bytes);
    if (whole_) return whole_->deallocate(given, bytes, alignment);
    ::operator delete(given, std::align_val_t(alignment));
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  int64_t bytes_ = 0, most_;
  CountedMemory *whole_;
};

}  // namespace cdec

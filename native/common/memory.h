// Memory that is counted: what an engine holds, and the most that it may.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <new>

namespace cdec {

// Of pmr containers. Beyond `most` bytes nothing is given: std::bad_alloc, a status at the edge.
class CountedMemory : public std::pmr::memory_resource {
 public:
  explicit CountedMemory(int64_t most = INT64_MAX) : most_(most) {}
  int64_t bytes() const { return bytes_; }

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (static_cast<int64_t>(bytes) > most_ - bytes_) throw std::bad_alloc();
    void *given = ::operator new(bytes, std::align_val_t(alignment));
    bytes_ += static_cast<int64_t>(bytes);
    return given;
  }
  void do_deallocate(void *given, size_t bytes, size_t alignment) override {
    bytes_ -= static_cast<int64_t>(bytes);
    ::operator delete(given, std::align_val_t(alignment));
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  int64_t bytes_ = 0, most_;
};

}  // namespace cdec

// The edge of the interface: what runs out of memory is a status there, not an exception.
#pragma once

#include <new>
#include <stdexcept>
#include <utility>

#include "cdec_native.h"

namespace cdec {

template <class Body>
int64_t guarded(Body &&body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return CDEC_NO_MEMORY;
  } catch (const std::length_error &) {
    return CDEC_NO_MEMORY;
  }
}

// A new object, or null where there is no memory for it.
template <class T, class... Arguments>
T *made(Arguments &&...arguments) {
  T *object = nullptr;
  guarded([&]() -> int64_t {
    object = new T(std::forward<Arguments>(arguments)...);
    return 0;
  });
  return object;
}

}  // namespace cdec

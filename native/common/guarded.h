// The edge of the interface: what runs out of memory is a status there, not an exception.
#pragma once

#include <new>
#include <stdexcept>

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

}  // namespace cdec

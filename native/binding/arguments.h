// Arguments of the interface, read from Python's objects: numbers, spans of buffers, structs.
//
// An `Argument<T>` holds a T for the time of a call: `load` fills it or sets an exception,
// `shape` tells its lengths. Whether a buffer has the type, the dimensions and the writability that T
// needs, and lies one element after the other, is checked here and nowhere else.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cdec_native.h"
#include "python_abi.h"

namespace binding {

// Where an argument stands, for messages: "trie_advance: states".
struct Place {
  const char *function, *argument;
};

struct Shape {
  int dimensions = 0;
  int64_t lengths[2] = {0, 0};
};

template <class T>
struct Argument;

template <>
struct Argument<int64_t> {
  int64_t value = 0;
  bool load(PyObject *object, Place) {
    value = PyLong_AsLongLong(object);
    return value != -1 || !PyErr_Occurred();
  }
  Shape shape() const { return {}; }
};

template <>
struct Argument<double> {
  double value = 0;
  bool load(PyObject *object, Place) {
    value = PyFloat_AsDouble(object);
    return value != -1.0 || !PyErr_Occurred();
  }
  Shape shape() const { return {}; }
};

// What a buffer calls an element: letters of the struct module, and what a person calls it.
struct Element {
  const char *formats, *name;
  int64_t bytes;
};

template <class T>
constexpr Element element() {
  if constexpr (std::is_same_v<T, double>) return {"d", "float64", 8};
  if constexpr (std::is_same_v<T, int8_t>) return {"b", "int8", 1};
  if constexpr (std::is_same_v<T, uint8_t>) return {"B", "uint8", 1};
  if constexpr (std::is_same_v<T, uint16_t>) return {"H", "uint16", 2};
  if constexpr (std::is_same_v<T, int32_t>) return {"il", "int32", 4};
  if constexpr (std::is_same_v<T, uint32_t>) return {"IL", "uint32", 4};
  if constexpr (std::is_same_v<T, int64_t>) return {"lq", "int64", 8};
  if constexpr (std::is_same_v<T, uint64_t>) return {"LQ", "uint64", 8};
}

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() {
    if (is_held_) PyBuffer_Release(&view_);
  }

  bool open(PyObject *object, Place place, int flags) {
    is_held_ = PyObject_GetBuffer(object, &view_, flags | PyBUF_FORMAT) == 0;
    return is_held_ || refuse(place);
  }

  bool load(PyObject *object, Place place, Element element, int dimensions, int flags) {
    if (!open(object, place, flags)) return false;
    const char *format = view_.format ? view_.format : "B";
    const bool is_type = *format && std::strchr(element.formats, *format) && !format[1] &&
                         view_.itemsize == element.bytes;
    if (is_type && view_.ndim == dimensions) return true;
    PyErr_Format(PyExc_TypeError, "%s: %s is an array of '%s' (%zd bytes) of %d dimensions, not of %s of %d",
                 place.function, place.argument, format, view_.itemsize, view_.ndim, element.name,
                 dimensions);
    return false;
  }

  const Py_buffer &view() const { return view_; }

 private:
  static bool refuse(Place place) {
    PyErr_Format(PyExc_TypeError, "%s: %s is no array, is not contiguous, or may not be written",
                 place.function, place.argument);
    return false;
  }

  Py_buffer view_{};
  bool is_held_ = false;
};

template <class T>
constexpr int access() {
  return PyBUF_C_CONTIGUOUS | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
}

// cdec_bool has bytes like cdec_u8, and is another type to a buffer.
template <class S>
constexpr Element element_of() {
  using T = std::remove_const_t<std::remove_pointer_t<decltype(S::at)>>;
  if constexpr (std::is_same_v<S, cdec_bool> || std::is_same_v<S, cdec_bool_out> ||
                std::is_same_v<S, cdec_bool_rows> || std::is_same_v<S, cdec_bool_rows_out>)
    return {"?", "bool", 1};
  else
    return element<T>();
}

template <class S>
concept Span = requires(S span) { span.at, span.size; };
template <class S>
concept Rows = requires(S rows) { rows.at, rows.rows, rows.width; } && !requires(S rows) { rows.stride; };

template <Span S>
struct Argument<S> {
  S value{};
  Buffer buffer;
  bool load(PyObject *object, Place place) {
    using T = std::remove_pointer_t<decltype(S::at)>;
    if (!buffer.load(object, place, element_of<S>(), 1, access<T>())) return false;
    value = S{static_cast<T *>(buffer.view().buf), buffer.view().shape[0]};
    return true;
  }
  Shape shape() const { return {1, {value.size, 0}}; }
};

template <Rows S>
struct Argument<S> {
  S value{};
  Buffer buffer;
  bool load(PyObject *object, Place place) {
    using T = std::remove_pointer_t<decltype(S::at)>;
    if (!buffer.load(object, place, element_of<S>(), 2, access<T>())) return false;
    value = S{static_cast<T *>(buffer.view().buf), buffer.view().shape[0], buffer.view().shape[1]};
    return true;
  }
  Shape shape() const { return {2, {value.rows, value.width}}; }
};

// Scores: one or two dimensions, float32 or float64; rows may lie apart, their elements may not.
template <>
struct Argument<cdec_scores> {
  cdec_scores value{};
  Buffer buffer;
  bool load(PyObject *object, Place place) {
    if (!buffer.open(object, place, PyBUF_STRIDES)) return false;
    const Py_buffer &view = buffer.view();
    const bool is_type = (*view.format == 'f' || *view.format == 'd') && !view.format[1];
    const int last = view.ndim - 1;
    if (!is_type || last < 0 || last > 1 ||
        (view.shape[last] > 1 && view.strides[last] != view.itemsize) ||
        (last && view.strides[0] % view.itemsize)) {
      PyErr_Format(PyExc_TypeError, "%s: %s is no array of rows of float32 or float64",
                   place.function, place.argument);
      return false;
    }
    const int64_t rows = last ? view.shape[0] : 1;
    const int64_t stride = last ? view.strides[0] / view.itemsize : view.shape[0];
    value = {view.buf, rows, view.shape[last], stride, view.itemsize == 8};
    return true;
  }
  Shape shape() const { return {2, {value.rows, value.width}}; }
};

// A struct of spans: a tuple of its fields in their order, or what `hold` made of one.
template <class S>
struct Fields;

template <class S, auto... members>
struct FieldList {
  using Struct = S;
  template <auto member>
  using Member = std::remove_reference_t<decltype(std::declval<S>().*member)>;

  std::tuple<Argument<Member<members>>...> arguments;
  S value{};

  bool load(PyObject *tuple, Place place) {
    constexpr Py_ssize_t count = sizeof...(members);
    if (PyTuple_Size(tuple) != count) {
      PyErr_Format(PyExc_TypeError, "%s: %s is no tuple of %zd fields", place.function,
                   place.argument, count);
      return false;
    }
    return load_all(tuple, place, std::index_sequence_for<Argument<Member<members>>...>());
  }

 private:
  template <size_t... at>
  bool load_all(PyObject *tuple, Place place, std::index_sequence<at...>) {
    if (!(std::get<at>(arguments).load(PyTuple_GetItem(tuple, at), place) && ...)) return false;
    ((value.*members = std::get<at>(arguments).value), ...);
    return true;
  }
};

template <class S>
void drop(PyObject *capsule) {
  delete static_cast<Fields<S> *>(PyCapsule_GetPointer(capsule, Fields<S>::kName));
}

// What `hold_NAME` of the module does: read the fields once, for many calls.
template <class S>
PyObject *hold(PyObject *, PyObject *const *arguments, Py_ssize_t count) {
  if (count != 1) return PyErr_Format(PyExc_TypeError, "%s: one tuple", Fields<S>::kName);
  auto fields = std::make_unique<Fields<S>>();
  if (!fields->load(arguments[0], {"hold", Fields<S>::kName})) return nullptr;
  PyObject *capsule = PyCapsule_New(fields.get(), Fields<S>::kName, &drop<S>);
  if (capsule) fields.release();
  return capsule;
}

template <class S>
struct Argument<const S *> {
  const S *value = nullptr;
  Fields<S> fields;
  bool load(PyObject *object, Place place) {
    if (PyCapsule_IsValid(object, Fields<S>::kName)) {
      value = &static_cast<Fields<S> *>(PyCapsule_GetPointer(object, Fields<S>::kName))->value;
      return true;
    }
    value = &fields.value;
    return fields.load(object, place);
  }
  Shape shape() const { return {}; }
};

// What a function of the library made (`make` in calls.h): its name, and what frees it.
template <class T>
struct Object;

template <class T>
struct Argument<T *> {
  T *value = nullptr;
  bool load(PyObject *object, Place place) {
    value = static_cast<T *>(PyCapsule_GetPointer(object, Object<T>::kName));
    if (value) return true;
    PyErr_Format(PyExc_TypeError, "%s: %s is no %s", place.function, place.argument,
                 Object<T>::kName);
    return false;
  }
  Shape shape() const { return {}; }
};

}  // namespace binding

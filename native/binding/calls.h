// Calls of the interface from Python: arguments are read, their lengths compared, the interpreter's
// lock released, the status told.
#pragma once

#include <algorithm>

#include "arguments.h"

namespace binding {

// The names of a function's arguments and of their lengths, as "states:n token_ids:n,m out:n+1".
template <size_t size>
struct Signature {
  char text[size];
  constexpr Signature(const char (&given)[size]) { std::copy_n(given, size, text); }
};

struct Parameter {
  char name[24] = {};
  int dimensions = 0;
  char letter[2] = {0, 0};
  int more[2] = {0, 0};
};

// Reads one parameter of a signature; moves `at` behind it.
constexpr Parameter parameter(const char *&at) {
  Parameter found;
  int length = 0;
  while (*at == ' ') ++at;
  for (; *at && *at != ' ' && *at != ':'; ++at) found.name[length++] = *at;
  if (*at != ':') return found;
  do {
    ++at;
    found.letter[found.dimensions] = *at++;
    if (*at == '+') found.more[found.dimensions] = at[1] - '0', at += 2;
    ++found.dimensions;
  } while (*at == ',');
  return found;
}

template <size_t count>
constexpr std::array<Parameter, count> parameters(const char *text) {
  std::array<Parameter, count> found;
  for (auto &each : found) each = parameter(text);
  return found;
}

// Lengths by letter, -1 where none is known yet.
class Lengths {
 public:
  Lengths() { std::fill(std::begin(known_), std::end(known_), int64_t{-1}); }

  bool agree(const Parameter &parameter, const Shape &shape, const char *function) {
    for (int d = 0; d < parameter.dimensions; ++d) {
      if (parameter.letter[d] < 'a' || parameter.letter[d] > 'z') continue;
      int64_t &known = known_[parameter.letter[d] - 'a'];
      const int64_t length = shape.lengths[d] - parameter.more[d];
      if (known < 0) known = length;
      if (known == length && length >= 0) continue;
      PyErr_Format(PyExc_ValueError, "%s: %s has length %lld, expected %lld", function,
                   parameter.name, static_cast<long long>(shape.lengths[d]),
                   static_cast<long long>(std::max<int64_t>(known, 0) + parameter.more[d]));
      return false;
    }
    return true;
  }

 private:
  int64_t known_[26];
};

template <class Result, class... Types>
constexpr Py_ssize_t count_of(Result (*)(Types...)) {
  return sizeof...(Types);
}

// Reads all arguments of a call; false with an exception set.
template <size_t count, class Arguments>
bool read_all(Arguments &read, const std::array<Parameter, count> &parameters,
              PyObject *const *given, const char *function) {
  Lengths lengths;
  size_t at = 0;
  const auto load = [&](auto &argument) {
    const Parameter &parameter = parameters[at];
    return argument.load(given[at++], {function, parameter.name}) &&
           lengths.agree(parameter, argument.shape(), function);
  };
  return std::apply([&](auto &...each) { return (load(each) && ...); }, read);
}

inline bool count_agrees(Py_ssize_t given, Py_ssize_t expected, const char *function,
                         const char *signature) {
  if (given == expected) return true;
  PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd: %s", function, expected, given,
               signature);
  return false;
}

template <auto function, Signature name, Signature signature, class... Types>
PyObject *call_with(PyObject *const *arguments, int64_t (*)(Types...)) {
  static constexpr auto kParameters = parameters<sizeof...(Types)>(signature.text);
  std::tuple<Argument<Types>...> read;
  if (!read_all(read, kParameters, arguments, name.text)) return nullptr;
  void *thread = PyEval_SaveThread();
  const int64_t result = std::apply([](auto &...each) { return function(each.value...); }, read);
  PyEval_RestoreThread(thread);
  return result == CDEC_NO_MEMORY ? PyErr_NoMemory() : PyLong_FromLongLong(result);
}

template <auto function, Signature name, Signature signature>
PyObject *call(PyObject *, PyObject *const *arguments, Py_ssize_t count) {
  if (!count_agrees(count, count_of(function), name.text, signature.text)) return nullptr;
  return call_with<function, name, signature>(arguments, function);
}

// What a function made, with its arguments, which live as long.
template <class T, class... Types>
struct Made {
  std::tuple<Argument<Types>...> arguments;
  std::array<PyObject *, sizeof...(Types)> held{};
  T *object = nullptr;
  ~Made() {
    if (object) Object<T>::free(object);
    for (PyObject *each : held)
      if (each) Py_DecRef(each);
  }
};

template <auto function, Signature name, Signature signature, class T, class... Types>
PyObject *make_with(PyObject *const *given, T *(*)(Types...)) {
  using Whole = Made<T, Types...>;
  static constexpr auto kParameters = parameters<sizeof...(Types)>(signature.text);
  auto made = std::make_unique<Whole>();
  if (!read_all(made->arguments, kParameters, given, name.text)) return nullptr;
  for (size_t i = 0; i < made->held.size(); ++i) Py_IncRef(made->held[i] = given[i]);
  void *thread = PyEval_SaveThread();
  made->object = std::apply([](auto &...each) { return function(each.value...); }, made->arguments);
  PyEval_RestoreThread(thread);
  if (!made->object) return PyErr_NoMemory();
  PyObject *capsule = PyCapsule_New(made->object, Object<T>::kName, [](PyObject *old) {
    delete static_cast<Whole *>(PyCapsule_GetContext(old));
  });
  if (capsule) PyCapsule_SetContext(capsule, made.release());
  return capsule;
}

// What makes an object: a capsule with it, freed with the capsule.
template <auto function, Signature name, Signature signature>
PyObject *make(PyObject *, PyObject *const *arguments, Py_ssize_t count) {
  if (!count_agrees(count, count_of(function), name.text, signature.text)) return nullptr;
  return make_with<function, name, signature>(arguments, function);
}

}  // namespace binding

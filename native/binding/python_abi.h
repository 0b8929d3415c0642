// What the binding uses of Python's stable ABI (3.11 and later), declared here so that no headers of
// Python are needed to build it; layouts are fixed by the stable ABI, and a test compares them with
// Python.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define PYTHON_DATA extern "C" __declspec(dllimport)
#define PYTHON_INIT extern "C" __declspec(dllexport)
#else
#define PYTHON_DATA extern "C"
#define PYTHON_INIT extern "C" __attribute__((visibility("default")))
#endif

using Py_ssize_t = std::ptrdiff_t;

struct PyObject {
  Py_ssize_t ob_refcnt;
  PyObject *ob_type;
};

struct Py_buffer {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
};

using PyFastFunction = PyObject *(*)(PyObject *, PyObject *const *, Py_ssize_t);

struct PyMethodDef {
  const char *ml_name;
  PyFastFunction ml_meth;
  int ml_flags;
  const char *ml_doc;
};

struct PyModuleDef_Slot {
  int slot;
  void *value;
};

struct PyModuleDef {
  PyObject ob_base;
  PyObject *(*m_init)();
  Py_ssize_t m_index;
  PyObject *m_copy;
  const char *m_name, *m_doc;
  Py_ssize_t m_size;
  PyMethodDef *m_methods;
  PyModuleDef_Slot *m_slots;
  void *m_traverse, *m_clear, *m_free;
};

constexpr int METH_FASTCALL = 0x80;
constexpr int Py_mod_exec = 2;
constexpr int PyBUF_WRITABLE = 0x1, PyBUF_FORMAT = 0x4, PyBUF_ND = 0x8;
constexpr int PyBUF_STRIDES = 0x10 | PyBUF_ND, PyBUF_C_CONTIGUOUS = 0x20 | PyBUF_STRIDES;

PYTHON_DATA PyObject *PyExc_TypeError, *PyExc_ValueError, *PyExc_MemoryError;

extern "C" {
PyObject *PyModuleDef_Init(PyModuleDef *);
int PyModule_AddIntConstant(PyObject *, const char *, long);
int PyModule_AddStringConstant(PyObject *, const char *, const char *);
int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
void PyBuffer_Release(Py_buffer *);
PyObject *PyErr_Occurred();
PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyErr_NoMemory();
long long PyLong_AsLongLong(PyObject *);
PyObject *PyLong_FromLongLong(long long);
double PyFloat_AsDouble(PyObject *);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
int PyCapsule_IsValid(PyObject *, const char *);
void *PyCapsule_GetPointer(PyObject *, const char *);
void *PyCapsule_GetContext(PyObject *);
int PyCapsule_SetContext(PyObject *, void *);
void *PyEval_SaveThread();
void PyEval_RestoreThread(void *);
void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
}

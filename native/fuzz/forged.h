// Arguments as a file has them (tests/native/fuzz_seeds.py writes it), forged by a fuzzer's bytes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cdec_native.h"

namespace fuzz {

// The bytes that a fuzzer gives, read from the front; zeros at their end.
class Bytes {
 public:
  Bytes(const uint8_t *data, size_t size) : at_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  template <class T>
  T read() {
    T found{};
    const size_t count = std::min(left_, sizeof(T));
    if (count > 0) std::memcpy(&found, at_, count);
    at_ += count, left_ -= count;
    return found;
  }

 private:
  const uint8_t *at_;
  size_t left_;
};

// Structs of spans and numbers, laid out as the interface has them, each array in memory of its own,
// so that AddressSanitizer sees a read outside of it.
class Arguments {
 public:
  // The file: arguments; each its number of fields; each field -1 and a number, or the size of an
  // item, the dimensions, the lengths, and the items.
  explicit Arguments(const char *path) {
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "rb"), &std::fclose);
    if (!file) std::fprintf(stderr, "no seed at %s\n", path), std::exit(2);
    const auto number = [&] {
      int64_t found = 0;
      if (std::fread(&found, sizeof found, 1, file.get()) != 1) std::exit(2);
      return found;
    };
    structs_.resize(number());
    for (auto &words : structs_)
      for (int64_t left = number(); left > 0; --left) {
        const int64_t item = number();
        if (item < 0) {
          words.push_back(number());
          continue;
        }
        const int64_t dimensions = number(), rows = number(), width = dimensions > 1 ? number() : 1;
        Array array{item, std::vector<uint8_t>(item * rows * width), {}};
        if (std::fread(array.kept.data(), 1, array.kept.size(), file.get()) != array.kept.size())
          std::exit(2);
        arrays_.push_back(std::move(array));
        places_.push_back({&words - structs_.data(), static_cast<int64_t>(words.size())});
        words.push_back(0);
        words.push_back(rows);
        if (dimensions > 1) words.push_back(width);
      }
  }

  // Fresh copies of all arrays; the bytes change so many elements of those of the first arguments.
  void forge(Bytes &bytes, int changes, int64_t arguments = INT64_MAX) {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      Array &array = arrays_[i];
      array.used = std::make_unique<uint8_t[]>(array.kept.size());
      std::copy(array.kept.begin(), array.kept.end(), array.used.get());
      structs_[places_[i].argument][places_[i].word] = reinterpret_cast<int64_t>(array.used.get());
    }
    size_t count = 0;
    while (count < places_.size() && places_[count].argument < arguments) ++count;
    for (; changes > 0 && count > 0 && !bytes.empty(); --changes)
      arrays_[bytes.read<uint16_t>() % count].change(bytes);
  }

  template <class S>
  const S *get(size_t argument) const {
    return reinterpret_cast<const S *>(structs_[argument].data());
  }

 private:
  struct Array {
    int64_t item;
    std::vector<uint8_t> kept;
    std::unique_ptr<uint8_t[]> used;

    void change(Bytes &bytes) {
      const int64_t count = static_cast<int64_t>(kept.size()) / item;
      if (count == 0) return;
      uint8_t *place = used.get() + item * (bytes.read<uint32_t>() % count);
      uint64_t value = 0;
      std::memcpy(&value, place, item);
      switch (bytes.read<uint8_t>() % 4) {
        case 0: value += bytes.read<int8_t>(); break;
        case 1: value = bytes.read<uint64_t>(); break;
        case 2: value = uint64_t{1} << (bytes.read<uint8_t>() % 64); break;
        default: value = ~value;
      }
      std::memcpy(place, &value, item);
    }
  };
  struct Place {
    int64_t argument, word;
  };
  std::vector<std::vector<int64_t>> structs_;
  std::vector<Array> arrays_;
  std::vector<Place> places_;
};

// The arguments of the file that CDEC_FUZZ_SEED names.
inline Arguments &seed() {
  static Arguments arguments(std::getenv("CDEC_FUZZ_SEED") ? std::getenv("CDEC_FUZZ_SEED") : "");
  return arguments;
}

// Most times the next token that a mask allows after some number, else the number, whatever it is.
inline int64_t chosen(int64_t token, const std::vector<int32_t> &mask, int64_t vocabulary) {
  for (int64_t tried = 0; token % 8 && tried < vocabulary; ++tried) {
    token = (token + 1) % vocabulary;
    if (mask[token / 32] >> (token % 32) & 1) break;
  }
  return token;
}

// Numbers of tokens for some parts, most of them any.
inline std::vector<int32_t> budgets(Bytes &bytes, int64_t parts) {
  std::vector<int32_t> most(parts, -1);
  for (int tried = 0; tried < 4 && parts > 0; ++tried)
    most[bytes.read<uint16_t>() % parts] = bytes.read<uint8_t>() % 8 - 1;
  return most;
}

// A walk through the product of a constraint with spellings that are told at random.
class Told {
 public:
  explicit Told(int64_t words) : words_(words) {
    spelling_.words = words;
    spelling_.width = 32 * words;
    spelled_ = cdec_spelled_make(&spelling_);
    for (int64_t i = 0; i < 3; ++i) cdec_spelled_number(spelled_, cdec_spelled_told(spelled_, i), i);
  }
  ~Told() { cdec_spelled_free(spelled_); }
  cdec_spelled *get() { return spelled_; }

  void walk(cdec_product *product, Bytes &bytes, int64_t start, int64_t vocabulary) {
    std::vector<int32_t> mask(words_);
    int64_t state = cdec_product_pair(product, start, 0), needed[3], left, right;
    for (int64_t steps = 0; state >= 0 && steps < 32 && !bytes.empty(); ++steps) {
      for (int64_t told = 0; told < 256; ++told) {
        if (cdec_product_fill_mask(product, {&state, 1}, {mask.data(), 1, words_}, {needed, 3}))
          break;
        if (!tell(bytes, needed)) return;
      }
      const int64_t token = chosen(bytes.read<uint16_t>(), mask, vocabulary);
      int64_t next = CDEC_DEAD;
      for (int64_t told = 0; told < 256; ++told) {
        if (cdec_product_advance(product, {&state, 1}, {&token, 1}, {&next, 1}, {needed, 3})) break;
        if (!tell(bytes, needed)) return;
      }
      cdec_product_halves(product, {&next, 1}, {&left, 1}, {&right, 1});
      state = next;
    }
  }

 private:
  bool tell(Bytes &bytes, const int64_t *needed) {
    if (needed[0] == CDEC_NEEDS_MASK) {
      std::vector<int32_t> mask(words_, bytes.read<int32_t>());
      return cdec_spelled_tell_mask(spelled_, needed[1], {mask.data(), words_}) == 0;
    }
    const int64_t after = bytes.read<uint8_t>() % 4 - 1;
    if (needed[0] == CDEC_NEEDS_STEP)
      return cdec_spelled_tell_step(spelled_, needed[1], needed[2], after) == 0;
    return false;
  }

  const int64_t words_;
  cdec_spelling spelling_{};
  cdec_spelled *spelled_;
};

}  // namespace fuzz

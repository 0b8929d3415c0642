// JSON values that must differ, and beginnings of them: equal ones have one number.
//
// Equal is what JSON Schema calls so: numbers of one value however they are spelled, strings without
// their escapes, objects whatever the order of their keys.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lists.h"

namespace cdec::schemas {

// A trie of texts that are spelled where something must be distinct; node 0 is the empty one.
class TextTrie {
 public:
  explicit TextTrie(std::pmr::memory_resource* memory)
      : nodes_(1, Node{}, memory), index_(memory) {}

  int32_t child(int32_t text, int32_t byte) {
    const int64_t key = int64_t{text} << 8 | byte, known = index_.find(key);
    if (known != Table::kAbsent) return static_cast<int32_t>(known);
    nodes_.push_back({text, byte});
    index_.set(key, static_cast<int64_t>(nodes_.size()) - 1);
    return static_cast<int32_t>(nodes_.size() - 1);
  }

  int32_t of(std::string_view bytes) {
    int32_t text = 0;
    for (const char byte : bytes) text = child(text, static_cast<uint8_t>(byte));
    return text;
  }

  std::string bytes(int32_t text) const {
    std::string found;
    for (; text > 0; text = nodes_[text].parent) found.push_back(static_cast<char>(nodes_[text].byte));
    std::ranges::reverse(found);
    return found;
  }

  // Whether a text is the beginning of another, or the other itself; longer ones have larger
  // numbers.
  bool is_prefix(int32_t text, int32_t longer) const {
    while (longer > text) longer = nodes_[longer].parent;
    return longer == text;
  }

  // The byte behind a beginning of a text; -1 where it is none, or the text itself.
  int32_t byte_behind(int32_t text, int32_t longer) const {
    int32_t byte = -1;
    for (; longer > text; longer = nodes_[longer].parent) byte = nodes_[longer].byte;
    return longer == text ? byte : -1;
  }

 private:
  struct Node {
    int32_t parent = 0, byte = 0;  // a text without its last byte, and that
  };
  std::pmr::vector<Node> nodes_;
  Table index_;
};

// A decimal integer of any size and a small one, added.
inline std::string sum_of(std::string_view digits, bool is_negative, int64_t more) {
  const std::string_view least = "0";
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) digits = least;
  bool is_below = more < 0;
  std::string shift = std::to_string(is_below ? -more : more), whole(digits);
  const size_t width = std::max(shift.size(), whole.size()) + 1;
  shift.insert(0, width - shift.size(), '0');
  whole.insert(0, width - whole.size(), '0');
  const bool adds = is_below == is_negative;
  if (!adds && whole < shift) {
    std::swap(whole, shift);
    std::swap(is_negative, is_below);
  }
  int carry = 0;
  for (size_t at = width; at-- > 0;) {
    const int other = shift[at] - '0';
    int digit = whole[at] - '0' + (adds ? other : -other) + carry;
    carry = digit > 9 ? 1 : digit < 0 ? -1 : 0;
    digit -= 10 * carry;
    whole[at] = static_cast<char>('0' + digit);
  }
  whole.erase(0, std::min(whole.find_first_not_of('0'), width - 1));
  return is_negative && whole != "0" ? "-" + whole : whole;
}

// The significant digits of a number's beginning, without leading zeros.
inline std::string significant(std::string_view number) {
  std::string digits;
  for (const char byte : number.substr(0, number.find_first_of("eE")))
    if ('0' <= byte && byte <= '9' && (byte != '0' || !digits.empty())) digits.push_back(byte);
  return digits;
}

// One spelling of each number: its sign, digits and exponent; words as they are.
inline std::string canonical_raw(std::string_view text) {
  if (text.find_first_of("tfn") == 0) return std::string(text);
  const size_t exponent = std::min(text.find_first_of("eE"), text.size());
  const size_t point = std::min(text.find('.'), exponent);
  std::string digits = significant(text);
  const auto last = digits.find_last_not_of('0');
  if (last == std::string::npos) return "0";
  int64_t shift = static_cast<int64_t>(digits.size() - 1 - last);
  if (point < exponent) shift -= static_cast<int64_t>(exponent - point - 1);
  digits.resize(last + 1);
  std::string_view power = text.substr(std::min(exponent + 1, text.size()));
  const bool is_negative = power.starts_with('-');
  if (is_negative || power.starts_with('+')) power.remove_prefix(1);
  return (text[0] == '-' ? "-" : "") + digits + "e" + sum_of(power, is_negative, shift);
}

// A beginning of a number, such that behind equal ones the same digits make the same number.
inline std::string without_spelling(std::string_view text) {
  const size_t exponent = text.find_first_of("eE");
  if (exponent == text.npos || text.find_first_of("tfn") == 0) return std::string(text);
  const std::string number = canonical_raw(text.substr(0, exponent));
  std::string_view power = text.substr(exponent + 1);
  const bool is_negative = power.starts_with('-');
  power.remove_prefix(std::min(power.find_first_not_of("+-0"), power.size()));
  return number == "0" ? "0e" : number + (is_negative ? "e-" : "e") + std::string(power);
}

// Values as lists: of a string or raw text its node in the trie, of an array its elements, of an
// object its keys and their values in pairs that ascend, behind the key whose value is awaited.
class Values {
 public:
  enum Kind : int64_t { kString, kRaw, kArray, kObject };
  using Parts = std::span<const int64_t>;

  explicit Values(std::pmr::memory_resource* memory) : texts(memory), lists_(memory) {}

  int32_t string(int32_t text) { return interned({kString, text}); }
  int32_t raw(int32_t text) { return interned({kRaw, texts.of(canonical_raw(texts.bytes(text)))}); }
  int32_t empty_array() { return interned({kArray}); }
  int32_t empty_object() { return interned({kObject, -1}); }

  int32_t with_element(int32_t array, int32_t element) {
    copy(array);
    built_.push_back(element);
    return number();
  }

  // With a key whose value is awaited; -1 where it is there.
  int32_t with_key(int32_t object, int32_t key) {
    if (value_of(object, key) >= 0) return -1;
    copy(object);
    built_[1] = key;
    return number();
  }

  // With the value of the key that awaits one.
  int32_t with_value(int32_t object, int32_t value) {
    copy(object);
    const int64_t key = built_[1];
    built_[1] = -1;
    size_t at = 2;
    while (at < built_.size() && built_[at] < key) at += 2;
    const int64_t pair[] = {key, value};
    built_.insert(built_.begin() + static_cast<int64_t>(at), pair, pair + 2);
    return number();
  }

  Kind kind(int32_t value) const { return static_cast<Kind>(lists_[value][0]); }
  int32_t text(int32_t value) const { return static_cast<int32_t>(lists_[value][1]); }
  // subtle: valid until a value is made.
  Parts elements(int32_t array) const { return lists_[array].subspan(1); }
  Parts members(int32_t object) const { return lists_[object].subspan(2); }
  int32_t awaiting(int32_t object) const { return text(object); }

  // The value of a key of an object, -1 where it has none.
  int32_t value_of(int32_t object, int32_t key) const {
    const Parts pairs = members(object);
    for (size_t at = 0; at < pairs.size(); at += 2)
      if (pairs[at] == key) return static_cast<int32_t>(pairs[at + 1]);
    return -1;
  }

  // Whether an object has all members of another, whose last key may await its value.
  bool has_members(int32_t object, int32_t beginning) const {
    const Parts all = members(object), some = members(beginning);
    size_t at = 0;
    for (size_t i = 0; i < some.size(); i += 2) {
      while (at < all.size() && all[at] < some[i]) at += 2;
      if (at == all.size() || all[at] != some[i] || all[at + 1] != some[i + 1]) return false;
    }
    return true;
  }

  // Whether a raw text can go on to a raw value, or nearly: of numbers the digits say that.
  bool may_become(int32_t text, int32_t value) const {
    const std::string begun = texts.bytes(text), whole = texts.bytes(this->text(value));
    if (begun.find_first_of("tfn") == 0) return whole.starts_with(begun);
    if (whole.find_first_of("tfn") == 0) return false;
    const std::string digits = significant(begun), all = significant(whole);
    if (digits.empty() || all.empty()) return digits.find_first_not_of('0') == std::string::npos;
    if ((begun[0] == '-') != (whole[0] == '-')) return false;
    if (all.starts_with(digits)) return true;
    return digits.starts_with(all) && digits.find_first_not_of('0', all.size()) == std::string::npos;
  }

  TextTrie texts;

 private:
  void copy(int32_t value) {
    const Parts old = lists_[value];
    built_.assign(old.begin(), old.end());
  }
  int32_t number() { return static_cast<int32_t>(lists_.intern(built_)); }
  int32_t interned(std::initializer_list<int64_t> parts) {
    built_.assign(parts);
    return number();
  }

  Lists<int64_t> lists_;
  std::vector<int64_t> built_;
};

}  // namespace cdec::schemas

// Regular expressions of ECMA-262 (2024, section 22.2.1, with the u flag) as member texts.
//
// Groups nest, back references count groups, and no name comes twice, so no automaton follows them. A
// cursor holds what is being spelled and the number of a *context*: the brackets that stand open, the
// groups so far, the most that is referred to, and names. Every cursor can be completed: brackets are
// closed, and groups that are referred to are added. So can what an automaton asks besides, where it
// goes on with any text and comes to its end by characters that stand for themselves
// (cdec.compilers.schemas.sets.regexes).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "lists.h"
#include "program.h"

namespace cdec::schemas {

class RegexSource final : public MemberSource {
 public:
  // `properties` are what may stand in \p{...}, ascending, each before a line feed; `starts` and
  // `continues` first and last characters of ranges that may begin names, and go on in them.
  RegexSource(const cdec_schema& schema, int32_t start, const cdec_regexes& tables,
              std::pmr::memory_resource* memory)
      : p(schema),
        start_(start),
        starts_(tables.starts),
        continues_(tables.continues),
        contexts_(memory),
        levels_(memory),
        names_(memory),
        numbers_(memory),
        states_(memory) {
    const std::string_view text(reinterpret_cast<const char*>(tables.properties.at),
                                tables.properties.size);
    for (size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
      properties_.push_back(text.substr(at, end - at));
    const int64_t none[] = {kNoLevel, 0, 0};
    contexts_.intern(none);
    names_.add(std::span<const int64_t>());
    numbers_.add(std::span<const int64_t>());
    find_ways();
  }

  Cursor root() const override { return packed({.mode = kOpen, .automaton = start_}); }

  Cursor after(const Cursor& before, int32_t byte) const override {
    At at = unpacked(before);
    at.automaton = step(at.automaton, byte);
    if (at.automaton < 0 || !read(at, byte)) return {};
    return packed(at);
  }

  bool is_member(const Cursor& cursor) const override {
    const At at = unpacked(cursor);
    return is_whole(at) && p.state_label[at.automaton] >= 0;
  }

  ByteSet bytes(const Cursor& cursor) const override {
    ByteSet found;
    for (int32_t byte = 0; byte < 256; ++byte) found[byte] = !after(cursor, byte).is_dead();
    return found;
  }

  int64_t state(const Cursor& cursor) const override {
    const int64_t parts[] = {cursor.at, cursor.stop, cursor.depth};
    return states_.intern(parts);
  }

  // Far: what is referred to may be any number of groups away.
  int64_t most_to_an_end() const override { return kFar; }

  // Only where the text may not end yet: bytes that are followed lead to where it may.
  int32_t way(const Cursor& cursor) const override {
    const At at = unpacked(cursor);
    const auto leads_on = [&](int32_t byte) { return byte >= 0 && !after(cursor, byte).is_dead(); };
    const auto first_of = [&](std::string_view bytes) {
      for (const char byte : bytes)
        if (leads_on(static_cast<uint8_t>(byte))) return int32_t{static_cast<uint8_t>(byte)};
      for (int32_t byte = 0x80; byte < 0xC0; ++byte)
        if (leads_on(byte)) return byte;
      return int32_t{-1};
    };
    const int32_t wanted = wanted_name(at);
    switch (at.mode) {
      case kOpen:
      case kAtom:
      case kQuantified:
      case kDecimal:
      case kZero:
        return outside_way(at);
      case kGroup:
        return wanted >= 0 ? '?' : ')';
      case kQuestion:
        return wanted >= 0 ? '<' : ':';
      case kLess:
        return wanted >= 0 ? name_byte(at, wanted, 0) : '=';
      case kCharacter:
        if (at.surrounding == kName && wanted >= 0) {
          const int32_t byte = name_byte(at, wanted, (at.count >> 4) - (at.count & 15));
          if (leads_on(byte)) return byte;
        }
        if (at.surrounding == kOutside && leads_on(ways_[at.automaton])) return ways_[at.automaton];
        return first_of("");
      case kNameGoes:
        return wanted >= 0 && !at.high ? name_byte(at, wanted, 0) : first_of(">a\\");
      case kLowerBound:
      case kUpperBound:
        return first_of("}9");
      default:
        // Hexadecimal digits from the largest: none of them leads away from a number that is wanted.
        return first_of("]{<}dfedcba9876543210u\\za" + next_of_property(at));
    }
  }

 private:
  // What is read. Surroundings: where a character that is spelled stands.
  enum Mode : int32_t {
    kOpen,        // nothing stands here that a quantifier could follow
    kAtom,        // behind what may be quantified
    kQuantified,  // behind a quantifier, which may be made lazy
    kDecimal,     // behind digits of a back reference, which are the value
    kZero,        // behind \0, which no digit follows
    kEscape,      // behind a backslash
    kControl,     // behind \c
    kHex,         // behind \x and digits of it
    kUnicode,     // behind \u and digits of it
    kBraced,      // behind \u{ and digits of it
    kPropertyOpen,
    kProperty,   // in \p{: the value is the first property that begins so
    kNamed,      // behind \k
    kGroup,      // behind (
    kQuestion,   // behind (?
    kLess,       // behind (?<
    kNameGoes,   // in a name
    kBraceOpen,  // behind a quantifier's {
    kLowerBound,
    kComma,
    kUpperBound,
    kClassOpen,  // behind [, before ^
    kClass,      // where a class's atom or its end may come
    kClassAtom,  // behind an atom, which may begin a range
    kClassDash,  // behind that and a dash
    kCharacter   // in bytes of a character in UTF-8
  };
  enum Surrounding : int32_t { kOutside, kFirst, kLast, kName, kReference };
  static constexpr int64_t kNoLevel = -1, kFar = 1 << 24;
  static constexpr int32_t kMost = 0x10FFFF, kClassOfMany = kMost + 1;
  static constexpr int64_t kMostGroups = (int64_t{1} << 32) - 2;  // section 22.2.1.1
  enum Context : int64_t { kLevel, kGroups, kReferred, kNames };

  struct At {
    int32_t mode = kOpen;
    int32_t surrounding = kOutside;
    int32_t count = 0;      // digits or bytes; of bytes: 16 times all, and those to come
    int32_t high = 0;       // a high surrogate before, with which a low one is one character;
                            // kEndsRange of one that may end a range as it is
    int32_t context = 0;
    uint32_t value = 0;     // of what is being spelled
    int32_t bound = 0;      // class: the atom before a dash; a name so far; a lower bound
    int32_t automaton = 0;
  };
  static constexpr int32_t kEndsRange = 1 << 16;

  static Cursor packed(const At& at) {
    return {int64_t{at.mode} | int64_t{at.surrounding} << 5 | int64_t{at.count} << 8 |
                int64_t{at.high} << 16 | int64_t{at.automaton} << 33,
            pack(at.value, at.bound), at.context};
  }
  static At unpacked(const Cursor& cursor) {
    const auto bits = [&](int shift, int64_t mask) {
      return static_cast<int32_t>(cursor.at >> shift & mask);
    };
    return {bits(0, 31),      bits(5, 7), bits(8, 255), bits(16, 0x1FFFF),
            static_cast<int32_t>(cursor.depth), static_cast<uint32_t>(high_half(cursor.stop)),
            low_half(cursor.stop), bits(33, 0x3FFFFFFF)};
  }

  int32_t step(int32_t state, int32_t byte) const {
    const auto [first, last] = range(p.state_edges, state);
    const int64_t edge =
        std::lower_bound(p.edge_high.at + first, p.edge_high.at + last, byte) - p.edge_high.at;
    return edge < last && p.edge_low[edge] <= byte ? p.edge_target[edge] : -1;
  }

  // -- bytes

  static bool is_digit(int32_t byte) { return '0' <= byte && byte <= '9'; }
  static bool is_letter(int32_t byte) { return 'a' <= (byte | 0x20) && (byte | 0x20) <= 'z'; }
  static bool is_any_of(int32_t byte, std::string_view bytes) {
    return 0 < byte && byte < 0x80 && bytes.find(static_cast<char>(byte)) != bytes.npos;
  }
  static bool is_high(int32_t code) { return 0xD800 <= code && code <= 0xDBFF; }
  static bool is_low(int32_t code) { return 0xDC00 <= code && code <= 0xDFFF; }
  static int32_t paired(int32_t high, int32_t low) {
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }
  static void go(At& at, Mode mode) { at = {.mode = mode, .context = at.context, .automaton = at.automaton}; }

  // Reads a byte; false where no expression goes on so.
  bool read(At& at, int32_t byte) const {
    switch (at.mode) {
      case kOpen:
      case kAtom:
      case kQuantified:
        return read_outside(at, byte);
      case kDecimal: {
        if (!is_digit(byte)) return end_decimal(at), read_outside(at, byte);
        const int64_t more = int64_t{at.value} * 10 + (byte - '0');
        if (more > kMostGroups) return false;
        at.value = static_cast<uint32_t>(more);
        return true;
      }
      case kZero:
        if (is_digit(byte)) return false;
        return at.mode = kAtom, read_outside(at, byte);
      case kEscape:
        return read_escape(at, byte);
      case kControl:
        return is_letter(byte) && spelled(at, byte & 31);
      case kHex:
      case kUnicode:
      case kBraced:
        return read_digit(at, byte);
      case kPropertyOpen:
        at.mode = kProperty;
        return byte == '{';
      case kProperty:
        return read_property(at, byte);
      case kNamed:
        at.mode = kNameGoes;
        at.surrounding = kReference;
        return byte == '<';
      case kGroup:
        if (byte == '?') return go(at, kQuestion), true;
        opened(at, true, true);
        return read_outside(at, byte);
      case kQuestion:
        if (byte == '<') return go(at, kLess), true;
        return is_any_of(byte, ":=!") && (opened(at, byte == ':', false), true);
      case kLess:
        if (is_any_of(byte, "=!")) return opened(at, false, false), true;
        at.mode = kNameGoes;
        at.surrounding = kName;
        [[fallthrough]];
      case kNameGoes:
        return read_name(at, byte);
      case kBraceOpen:
      case kLowerBound:
      case kComma:
      case kUpperBound:
        return read_bounds(at, byte);
      case kCharacter:
        return read_character(at, byte);
      default:
        return read_class(at, byte);
    }
  }

  bool read_outside(At& at, int32_t byte) const {
    const bool is_atom = at.mode == kAtom, is_quantified = at.mode == kQuantified;
    switch (byte) {
      case '*':
      case '+':
        return is_atom && (go(at, kQuantified), true);
      case '?':
        if (is_quantified) return go(at, kOpen), true;
        return is_atom && (go(at, kQuantified), true);
      case '{':
        return is_atom && (go(at, kBraceOpen), true);
      case '(':
        return go(at, kGroup), true;
      case ')':
        return closed(at);
      case '[':
        return go(at, kClassOpen), true;
      case '\\':
        return go(at, kEscape), true;
      case '|':
      case '^':
      case '$':
        return go(at, kOpen), true;
      case ']':
      case '}':
        return false;
      default:
        go(at, kAtom);
        return byte < 0x80 || begin_character(at, byte);
    }
  }

  // Reads what follows a backslash.
  bool read_escape(At& at, int32_t byte) const {
    const bool is_outside = at.surrounding == kOutside;
    if (at.surrounding >= kName) return byte == 'u' && (at.mode = kUnicode, true);
    const bool joins = at.high && byte == 'u';
    if (at.high && !joins) {
      if (!settle(at)) return false;
    }
    const auto within = [&](Mode mode) { return at.mode = mode, at.count = 0, at.value = 0, true; };
    if (byte == 'u') return within(kUnicode);
    if (byte == 'x') return can_be(at, 0, 0xFF) && within(kHex);
    if (byte == 'c') return can_be(at, 0, 26) && within(kControl);
    if (byte == '0') {
      if (is_outside) return go(at, kZero), true;
      return spelled(at, 0) && (at.count = 1, true);  // which no digit follows
    }
    if (is_any_of(byte, "dDsSwW")) return many(at);
    if (byte == 'p' || byte == 'P') return at.surrounding != kLast && within(kPropertyOpen);
    const size_t control = std::string_view("fnrtv").find(static_cast<char>(byte));
    if (control != std::string_view::npos) return spelled(at, "\f\n\r\t\v"[control]);
    if (is_any_of(byte, "^$\\.*+?()[]{}|/")) return spelled(at, byte);
    if (!is_outside) return is_any_of(byte, "b-") && spelled(at, byte == 'b' ? '\b' : '-');
    if (byte == 'b' || byte == 'B') return go(at, kOpen), true;
    if (byte == 'k') return go(at, kNamed), true;
    if (!is_digit(byte)) return false;
    go(at, kDecimal);
    at.value = byte - '0';
    return true;
  }

  // Of a high surrogate in a class that no low one joins: what it is then.
  static bool settle(At& at) {
    if (at.surrounding == kLast && !(at.high & kEndsRange)) return false;
    at.surrounding = kFirst;
    at.high = at.bound = 0;
    return true;
  }

  bool read_digit(At& at, int32_t byte) const {
    if (at.mode == kUnicode && at.count == 0 && byte == '{') {
      at.mode = kBraced;
      return !at.high || (at.surrounding < kName && settle(at));
    }
    if (at.mode == kBraced && byte == '}')
      return at.count > 0 && can_be(at, at.value, at.value) && spelled(at, at.value);
    const int32_t lower = byte | 0x20;
    const int32_t digit = is_digit(byte) ? byte - '0' : lower - 'a' + 10;
    if (!is_digit(byte) && (lower < 'a' || lower > 'f')) return false;
    at.value = at.value << 4 | digit;
    if (at.mode == kBraced) {
      at.count = 1;
      if (at.value > kMost) return false;
      if (at.value == 0) return true;  // zeros in front
      for (int64_t low = at.value, high = at.value; low <= kMost; low <<= 4, high = high << 4 | 15)
        if (can_be(at, low, std::min<int64_t>(high, kMost))) return true;
      return false;
    }
    const int32_t all = at.mode == kHex ? 2 : 4, open = 4 * (all - ++at.count);
    const int32_t low = at.value << open, high = low | ((1 << open) - 1);
    if (at.mode == kHex) return can_be(at, low, high) && (open || spelled(at, low));
    return read_unit(at, low, high, !open);
  }

  // A UTF-16 code unit of which digits are read: it is one from low to high.
  bool read_unit(At& at, int32_t low, int32_t high, bool is_end) const {
    const int32_t joined_low = std::max(low, 0xDC00), joined_high = std::min(high, 0xDFFF);
    const int32_t before = at.high & 0xFFFF;
    if (before && joined_low <= joined_high) {
      const int32_t code = paired(before, joined_low), last = paired(before, joined_high);
      if (is_end) {
        if (!can_be(at, code, code)) return false;
        at.high = 0;
        return spelled(at, code);
      }
      if (can_be(at, code, last)) return true;
    }
    if (before && at.surrounding >= kName) return false;
    if (before) {
      // Another unit, behind one that stands alone.
      if (at.surrounding == kLast && !(at.high & kEndsRange)) return false;
      if (!is_end) return true;
      settle(at);
    }
    const int32_t first = std::max(low, 0xD800), last = std::min(high, 0xDBFF);
    const bool can_pair =
        first <= last && can_be(at, paired(first, 0xDC00), paired(last, 0xDFFF));
    if (!is_end) return can_pair || can_be(at, low, high);
    if (is_high(low) && at.surrounding != kOutside) {
      const bool is_alone = at.surrounding < kName && can_be(at, low, low);
      if (!is_alone && !can_pair) return false;
      return begin_pair(at, low, is_alone);
    }
    return can_be(at, low, low) && spelled(at, low);
  }

  // A high surrogate of a class or a name, with which a low one may be one character.
  static bool begin_pair(At& at, int32_t high, bool is_alone) {
    at.count = 0;
    at.value = 0;
    at.high = high;
    if (at.surrounding == kFirst) {
      at.mode = kClassAtom;
      at.bound = high;
    } else if (at.surrounding == kLast) {
      at.mode = is_alone ? kClass : kClassDash;
      at.high |= is_alone ? kEndsRange : 0;
    } else {
      at.mode = kNameGoes;
    }
    return true;
  }

  bool read_property(At& at, int32_t byte) const {
    const std::string_view first = properties_[at.value];
    if (byte == '}') {
      if (static_cast<size_t>(at.count) != first.size()) return false;
      return many(at);
    }
    if (byte >= 0x80) return false;
    const std::string begun = std::string(first.substr(0, at.count)) + static_cast<char>(byte);
    const auto found = std::ranges::lower_bound(properties_, begun);
    if (found == properties_.end() || !found->starts_with(begun)) return false;
    at.value = static_cast<uint32_t>(found - properties_.begin());
    ++at.count;
    return true;
  }

  // A set of characters: as an atom, or of a class.
  static bool many(At& at) {
    if (at.surrounding == kLast) return false;
    const bool is_outside = at.surrounding == kOutside;
    go(at, is_outside ? kAtom : kClassAtom);
    if (!is_outside) at.bound = kClassOfMany;
    return true;
  }

  // -- characters

  // Whether some character of a range may come.
  bool can_be(const At& at, int64_t low, int64_t high) const {
    if (at.surrounding == kLast) return high >= at.bound;
    if (at.surrounding < kName) return true;
    const cdec_i32& ranges = at.bound == 0 ? starts_ : continues_;
    int64_t first = 0, last = ranges.size / 2;  // the first range that ends at low or behind
    while (first < last) {
      const int64_t middle = first + (last - first) / 2;
      if (ranges[2 * middle + 1] < low) first = middle + 1;
      else last = middle;
    }
    return first < ranges.size / 2 && ranges[2 * first] <= high;
  }

  // A character is spelled whole; false where it may not stand here.
  bool spelled(At& at, int32_t code) const {
    if (!can_be(at, code, code)) return false;
    const At before = at;
    switch (at.surrounding) {
      case kOutside:
        return go(at, kAtom), true;
      case kFirst:
        go(at, kClassAtom);
        at.bound = code;
        return true;
      case kLast:
        return go(at, kClass), true;
      default:
        go(at, kNameGoes);
        at.surrounding = before.surrounding;
        const int64_t longer[] = {before.bound, code};
        at.bound = static_cast<int32_t>(names_.intern(longer));
        return true;
    }
  }

  // Begins a character of several bytes: where its mode is kAtom outside.
  bool begin_character(At& at, int32_t byte) const {
    const int32_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    at.mode = kCharacter;
    at.count = size << 4 | size;
    at.value = 0;
    return read_character(at, byte);
  }

  bool read_character(At& at, int32_t byte) const {
    const int32_t size = at.count >> 4, open = 6 * ((--at.count & 15));
    const bool is_first = (at.count & 15) == size - 1;
    at.value = at.value << 6 | (byte & (is_first ? 0x7F >> size : 0x3F));
    const int64_t low = int64_t{at.value} << open, high = low | ((int64_t{1} << open) - 1);
    return can_be(at, low, std::min<int64_t>(high, kMost)) && (open || spelled(at, at.value));
  }

  bool read_name(At& at, int32_t byte) const {
    if (at.high) return byte == '\\' && (at.mode = kEscape, true);
    if (byte == '>') return at.bound > 0 && end_name(at);
    at.count = 0;
    at.value = 0;
    if (byte == '\\') return at.mode = kEscape, true;
    return byte >= 0x80 ? begin_character(at, byte) : spelled(at, byte);
  }

  // -- classes: an atom that may begin a range is the bound

  bool read_class(At& at, int32_t byte) const {
    const bool is_dashed = at.mode == kClassDash;
    const bool is_zero = at.count == 1;
    if (is_zero && is_digit(byte)) return false;
    at.count = 0;
    if (at.mode == kClassOpen && byte == '^') return go(at, kClass), true;
    if (byte == ']') {
      if (is_dashed && at.high) return false;
      return go(at, kAtom), true;
    }
    if (is_dashed && at.bound == kClassOfMany) return false;  // the dash is an atom, the last one
    if (byte == '\\') {
      if (!at.high) begin_atom(at, is_dashed);
      at.mode = kEscape;
      return true;
    }
    if (is_dashed && at.high) return false;  // a pair is needed
    if (at.mode == kClassAtom && byte == '-') {
      at.mode = kClassDash;
      at.high = 0;
      return true;
    }
    begin_atom(at, is_dashed);
    return byte >= 0x80 ? begin_character(at, byte) : spelled(at, byte);
  }

  static void begin_atom(At& at, bool is_dashed) {
    at.high = 0;
    at.surrounding = is_dashed ? kLast : kFirst;
    if (!is_dashed) at.bound = 0;
  }

  // -- bounds of quantifiers: their digits without zeros in front have numbers

  bool read_bounds(At& at, int32_t byte) const {
    const bool has_digits = at.mode == kLowerBound || at.mode == kUpperBound;
    if (is_digit(byte)) {
      if (!has_digits) at.mode = at.mode == kBraceOpen ? kLowerBound : kUpperBound;
      if (at.value || byte != '0') {
        const int64_t longer[] = {at.value, byte - '0', length_of(at.value) + 1};
        at.value = static_cast<uint32_t>(numbers_.intern(longer));
      }
      return true;
    }
    if (byte == ',') {
      if (at.mode != kLowerBound) return false;
      at.mode = kComma;
      at.bound = static_cast<int32_t>(at.value);
      at.value = 0;
      return true;
    }
    if (byte != '}' || at.mode == kBraceOpen) return false;
    if (at.mode == kUpperBound && is_less(at.value, at.bound)) return false;
    return go(at, kQuantified), true;
  }

  int64_t length_of(int64_t number) const { return number ? numbers_[number][2] : 0; }

  bool is_less(int64_t a, int64_t b) const {
    if (length_of(a) != length_of(b)) return length_of(a) < length_of(b);
    bool is_less = false;
    for (; a != b; a = numbers_[a][0], b = numbers_[b][0])
      if (numbers_[a][1] != numbers_[b][1]) is_less = numbers_[a][1] < numbers_[b][1];
    return is_less;
  }

  // -- contexts

  template <class Change>
  void change(At& at, Change&& change) const {
    const auto old = contexts_[at.context];
    built_.assign(old.begin(), old.end());
    change(built_);
    at.context = static_cast<int32_t>(contexts_.intern(built_));
  }

  // A bracket is opened; behind one of a group a quantifier may stand.
  void opened(At& at, bool is_group, bool is_capturing) const {
    change(at, [&](std::vector<int64_t>& context) {
      const int64_t level[] = {context[kLevel], is_group};
      context[kLevel] = levels_.intern(level);
      context[kGroups] += is_capturing;
    });
    go(at, kOpen);
  }

  bool closed(At& at) const {
    const int64_t level = contexts_[at.context][kLevel];
    if (level == kNoLevel) return false;
    const auto outside = levels_[level][0], is_group = levels_[level][1];
    change(at, [&](std::vector<int64_t>& context) { context[kLevel] = outside; });
    go(at, is_group ? kAtom : kOpen);
    return true;
  }

  void end_decimal(At& at) const {
    const int64_t number = at.value;
    change(at, [&](std::vector<int64_t>& context) {
      context[kReferred] = std::max(context[kReferred], number);
    });
    go(at, kAtom);
  }

  // Names stand ascending in a context: twice their number, plus 1 where a group has it.
  bool end_name(At& at) const {
    const int64_t name = 2 * int64_t{at.bound};
    const bool is_group = at.surrounding == kName;
    const auto old = contexts_[at.context].subspan(kNames);
    const bool has_group = std::ranges::binary_search(old, name + 1);
    if (is_group && has_group) return false;
    if (is_group || !(has_group || std::ranges::binary_search(old, name)))
      change(at, [&](std::vector<int64_t>& context) {
        const auto first = context.begin() + kNames;
        const auto place = std::lower_bound(first, context.end(), name);
        if (place != context.end() && *place == name) *place += is_group;
        else context.insert(place, name + is_group);
      });
    if (is_group) opened(at, true, true);
    else go(at, kAtom);
    return true;
  }

  bool is_whole(const At& at) const {
    if (at.mode > kZero) return false;
    const auto context = contexts_[at.context];
    const int64_t number = at.mode == kDecimal ? at.value : 0;
    if (context[kLevel] != kNoLevel || context[kGroups] < std::max(context[kReferred], number))
      return false;
    return std::ranges::all_of(context.subspan(kNames), [](int64_t name) { return name & 1; });
  }

  // -- ways to an end

  // The first name of which there is no group, and with which the one that is spelled can go on.
  int32_t wanted_name(const At& at) const {
    const int64_t begun = at.mode >= kNameGoes && at.surrounding == kName ? at.bound : 0;
    if (at.mode == kNameGoes && at.surrounding == kReference) return -1;
    for (const int64_t name : contexts_[at.context].subspan(kNames)) {
      int64_t part = name / 2;
      while (part > begun) part = names_[part][0];
      if (!(name & 1) && part == begun) return static_cast<int32_t>(name / 2);
    }
    return -1;
  }

  // The byte at a place of the next character of a name; behind its last the bracket.
  int32_t name_byte(const At& at, int32_t name, int32_t place) const {
    const int32_t begun = at.mode == kLess ? 0 : at.bound;
    if (name == begun) return '>';
    int64_t next = name;
    while (names_[next][0] != begun) next = names_[next][0];
    const Encoded code(static_cast<int32_t>(names_[next][1]));
    return place < code.size ? code.bytes[place] : -1;
  }

  int32_t outside_way(const At& at) const {
    const auto context = contexts_[at.context];
    if (context[kLevel] != kNoLevel) return ')';
    if (!is_whole(at)) return '(';
    if (p.state_label[at.automaton] >= 0) return 'a';
    // Behind a number digits of another kind do not stand for themselves.
    if (at.mode == kDecimal || at.mode == kZero) return '|';
    return ways_[at.automaton];
  }

  std::string next_of_property(const At& at) const {
    if (at.mode != kProperty) return "";
    return std::string(properties_[at.value].substr(at.count, 1));
  }

  // Of each state of the automaton the byte with which a way by plain characters begins.
  void find_ways() {
    ways_.assign(p.state_label.size, -1);
    std::vector<bool> is_found(p.state_label.size);
    for (int64_t state = 0; state < p.state_label.size; ++state)
      is_found[state] = p.state_label[state] >= 0;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      const std::vector<bool> before = is_found;
      for (int64_t state = 0; state < p.state_label.size; ++state)
        for (const int64_t edge : range(p.state_edges, state)) {
          if (is_found[state]) break;
          if (!before[p.edge_target[edge]]) continue;
          const int32_t byte = plain_between(p.edge_low[edge], p.edge_high[edge]);
          if (byte < 0) continue;
          ways_[state] = byte;
          is_found[state] = goes_on = true;
        }
    }
  }

  // A byte of a range with which a character begins or goes on that stands for itself, -1 for none.
  static int32_t plain_between(int32_t low, int32_t high) {
    for (int32_t byte = std::max(low, 0x20); byte <= std::min(high, 0x7E); ++byte)
      if (!is_any_of(byte, "\"\\^$*+?()[]{}")) return byte;
    return high >= 0x80 ? std::max(low, 0x80) : -1;
  }

  const cdec_schema& p;
  const int32_t start_;
  const cdec_i32 starts_, continues_;
  std::vector<std::string_view> properties_;
  std::vector<int32_t> ways_;
  // subtle: what is read of them depends on no call before; things are numbered as they are met.
  mutable Lists<int64_t> contexts_;  // a level, groups, the most that is referred to, names
  mutable Lists<int64_t> levels_;    // the level outside, whether it is a group
  mutable Lists<int64_t> names_;     // a name without its last character, and that; 0 is empty
  mutable Lists<int64_t> numbers_;   // a number without its last digit, that, their length; 0 is 0
  mutable Lists<int64_t> states_;
  mutable std::vector<int64_t> built_;
};

}  // namespace cdec::schemas

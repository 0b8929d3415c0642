// Strings and keys: a byte of their content, escapes decoded.
#pragma once

#include "layout.h"

namespace cdec::schemas {

// What a short escape stands for; -1 where it is none.
inline int32_t escaped(int32_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return byte;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return -1;
  }
}

inline int32_t hexadecimal(int32_t byte) {
  if ('0' <= byte && byte <= '9') return byte - '0';
  const int32_t lower = byte | 0x20;
  return 'a' <= lower && lower <= 'f' ? lower - 'a' + 10 : -1;
}

class Strings : public Layout {
 public:
  using Layout::Layout;

 protected:
  // The state after a byte of a string or key that is no closing quote; -1 for none.
  int32_t content_byte(int32_t frame, LexicalState lexical, int32_t byte) {
    frame = counted_token(frame);
    if (frame < 0) return -1;
    const Style style = lexical.style();
    Escape escape = lexical.escape();
    const auto within = [&](Escape::Kind kind) {
      escape.kind = kind;
      return state_of(frame, LexicalState(style, escape));
    };
    const auto one = [&](int32_t plain) {
      const uint8_t bytes[] = {static_cast<uint8_t>(plain)};
      return state_of(after_bytes(frame, bytes), LexicalState(style, 0));
    };
    switch (escape.kind) {
      case Escape::kNone:
        if (byte == '\\') return accepts_escape(frame) ? within(Escape::kBegun) : -1;
        return byte < 0x20 ? -1 : one(byte);
      case Escape::kBegun: {
        if (byte == 'u') return accepts_unit(frame, 0, kLastCodePoint) ? within(Escape::kUnit) : -1;
        const int32_t plain = byte == '/' && p.few_escapes ? -1 : escaped(byte);
        return plain < 0 ? -1 : one(plain);
      }
      case Escape::kHigh:
        return byte == '\\' ? within(Escape::kHighBegun) : -1;
      case Escape::kHighBegun:
        return byte == 'u' ? within(Escape::kLow) : -1;
      default:
        return escape_digit(frame, style, escape, byte);
    }
  }

 private:
  // The frame in which the token at hand is counted, as a byte of the string stands in it; -1 where
  // that is one too many for all alternatives.
  int32_t counted_token(int32_t frame) {
    if (p.string_tokens.empty()) return frame;
    const Frame at = this->frame(frame);
    const auto counts = [&](const Item& item) {
      return at.phase == Phase::kString && !(item.tokens & 1) && p.most_tokens(item.part) >= 0;
    };
    if (std::ranges::none_of(at.items, counts)) return frame;
    begin_frame(at.phase, at.parent, at.text, at.value);
    for (Item item : at.items) {
      if (counts(item)) {
        if (item.tokens >> 1 >= p.most_tokens(item.part)) continue;
        item.tokens += 3;
      }
      add(item);
    }
    return end_frame();
  }

  // The state after a hexadecimal digit of a unit, -1 where no character has it.
  int32_t escape_digit(int32_t frame, Style style, Escape escape, int32_t byte) {
    const int32_t digit = hexadecimal(byte);
    if (digit < 0) return -1;
    ++escape.digits;
    escape.value = escape.value << 4 | digit;
    const int32_t open_bits = 4 * (4 - escape.digits);
    int32_t low = escape.value << open_bits, top = ((escape.value + 1) << open_bits) - 1;
    const bool is_whole = escape.digits == 4;
    const auto pairs = [](int32_t high) { return 0x10000 + ((high - 0xD800) << 10); };
    bool is_accepted;
    if (escape.kind == Escape::kLow) {
      low = std::max(low, 0xDC00);
      top = std::min(top, 0xDFFF);
      if (low > top) return -1;
      const int32_t base = 0x10000 + (escape.surrogate << 10) - 0xDC00;
      if (is_whole) return state_of(after_character(frame, base + low), LexicalState(style, 0));
      is_accepted = accepts(frame, base + low, base + top);
    } else if (is_whole) {
      if ((0xDC00 <= low && low <= 0xDFFF) || (p.few_escapes && 0x20 <= low && low <= 0x7E))
        return -1;
      if (low < 0xD800 || low > 0xDBFF)
        return state_of(after_character(frame, low), LexicalState(style, 0));
      is_accepted = accepts(frame, pairs(low), pairs(low) + 0x3FF);
      escape = {Escape::kHigh, low - 0xD800, 0, 0};
    } else {
      const int32_t first = std::max(low, 0xD800), last = std::min(top, 0xDBFF);
      is_accepted = accepts_unit(frame, low, std::min(top, 0xD7FF)) ||
                    accepts(frame, std::max(low, 0xE000), top) ||
                    (first <= last && accepts(frame, pairs(first), pairs(last) + 0x3FF));
    }
    return is_accepted ? state_of(frame, LexicalState(style, escape)) : -1;
  }

  // The frame after a character, whatever it is; -1 for none.
  int32_t after_character(int32_t frame, int32_t code) { return after_bytes(frame, Encoded(code)); }

  // The frame after bytes of one character, or one byte of it; -1 for none.
  int32_t after_bytes(int32_t frame, std::span<const uint8_t> bytes) {
    const Frame at = this->frame(frame);
    int32_t text = at.text;
    if (text >= 0)
      for (const uint8_t byte : bytes) text = values.texts.child(text, byte);
    begin_frame(at.phase, at.parent, text, at.value);
    const int32_t begins = (bytes[0] & 0xC0) != 0x80;
    const bool is_key = at.phase == Phase::kKey;
    for (const Item& item : at.items) {
      int32_t state = is_key ? item.content : item.place;
      for (const uint8_t byte : bytes)
        if (state >= 0) state = p.step(state, byte);
      if (state < 0) continue;
      if (is_key) {
        if (progresses.key_may_come(item.part, item.place, state))
          add({item.value, item.part, item.place, state});
      } else {
        const int64_t count = counted(item.part, state, int64_t{item.content} + begins);
        if (count < 0) continue;
        add({item.value, item.part, state, static_cast<int32_t>(count), item.tokens});
      }
    }
    return end_frame();
  }

  // How many characters there were, as far as it matters; -1 where there are too many.
  int64_t counted(int32_t string, int32_t state, int64_t count) const {
    const int64_t most = p.string_max[string];
    if (most < 0) return std::min(count, p.string_min[string]);
    return count + p.state_shortest[state] <= most ? count : -1;
  }

  // Whether some character of a range can come, in any alternative.
  bool accepts(int32_t frame, int32_t low, int32_t high) {
    const Frame at = this->frame(frame);
    for (const Item& item : at.items)
      for (int32_t bottom = low; bottom <= high;) {
        // Those of as many bytes in UTF-8.
        const int32_t most[] = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};
        const int32_t top = std::min(high, most[Encoded(bottom).size - 1]);
        if (accepts_between(at, item, Encoded(bottom), Encoded(top))) return true;
        bottom = top + 1;
      }
    return false;
  }

  // Whether some character of a range can come that may be spelled by its number.
  bool accepts_unit(int32_t frame, int32_t low, int32_t high) {
    if (!p.few_escapes) return accepts(frame, low, high);
    return accepts(frame, low, std::min(high, 0x1F)) || accepts(frame, std::max(low, 0x7F), high);
  }

  // Whether some character can come that may be escaped.
  bool accepts_escape(int32_t frame) {
    return accepts_unit(frame, 0, kLastCodePoint) || accepts(frame, '"', '"') ||
           accepts(frame, '\\', '\\');
  }

  // Whether a character can come behind what was spelled of a string or key.
  bool takes(const Frame& frame, const Item& item, int32_t state) {
    if (frame.phase == Phase::kKey) return progresses.key_may_come(item.part, item.place, state);
    return counted(item.part, state, int64_t{item.content} + 1) >= 0;
  }

  // Walks an automaton over the bytes of characters between two of as many, to one that an
  // alternative takes.
  bool accepts_between(const Frame& frame, const Item& item, std::span<const uint8_t> low,
                       std::span<const uint8_t> high) {
    struct Place {
      int32_t state;
      uint8_t depth;
      bool at_low, at_high;  // whether the bytes so far are the first ones of these
    };
    std::vector<Place> open{{frame.phase == Phase::kKey ? item.content : item.place, 0, true, true}};
    while (!open.empty()) {
      const Place at = open.back();
      open.pop_back();
      if (at.depth == low.size()) {
        if (takes(frame, item, at.state)) return true;
        continue;
      }
      const uint8_t least = at.at_low ? low[at.depth] : 0x80,
                    most = at.at_high ? high[at.depth] : 0xBF;
      p.each_edge(at.state, [&](int32_t edge_low, int32_t edge_high) {
        ++work_.spent;
        const int32_t first = std::max<int32_t>(edge_low, least),
                      last = std::min<int32_t>(edge_high, most);
        if (first > last) return;
        const int32_t target = p.step(at.state, first);
        const uint8_t depth = at.depth + 1;
        const bool is_least = first == least && at.at_low, is_most = last == most && at.at_high;
        if (first == last) return open.push_back({target, depth, is_least, is_most});
        if (is_least) open.push_back({target, depth, true, false});
        if (is_most) open.push_back({target, depth, false, true});
        if (last - first + 1 > is_least + is_most) open.push_back({target, depth, false, false});
      });
    }
    return false;
  }
};

}  // namespace cdec::schemas

// Layout: the blanks of json.dumps, where no others may stand.
//
// Without indentation there are none, or one behind each colon and comma. With it, a member stands
// on a line of its own, indented by its level; so does the bracket behind the last; and one blank
// follows a colon. Empty objects and arrays have nothing between their brackets.
//
// The style is the program's, or the text's own: then the first white space that is written, or is
// not where a style has it, tells which it is, and the rest of the text keeps to it. What is
// written of blanks: 0, none; 1, all; 1 + n, n are to come. In the first line break of a text,
// before its style is told: 1 + the blanks behind it.
#pragma once

#include "members.h"

namespace cdec::schemas {

inline bool is_next(Phase phase) {
  return phase == Phase::kObjectNext || phase == Phase::kArrayNext;
}
inline bool is_open(Phase phase) {
  return phase == Phase::kObjectOpen || phase == Phase::kArrayOpen;
}
inline bool follows_comma(Phase phase) {
  return phase == Phase::kObjectComma || phase == Phase::kArrayValue;
}

constexpr LexicalState kNoLexicalState{-1};

// After a blank of the first indentation, at depth 1.
inline LexicalState first_indentation(int32_t written, int32_t byte) {
  if (byte == '\t') return written == 1 ? LexicalState(Style::kByTab, 1) : kNoLexicalState;
  if (byte != ' ') return kNoLexicalState;
  return written < 3 ? LexicalState(Style::kUndecided, written + 1)
                     : LexicalState(Style::kByFour, 2);
}

// After a blank behind a colon or a comma; none where a style has none there.
inline LexicalState after_space(Style style, Phase phase) {
  const bool is_colon = phase == Phase::kObjectValue;
  if (style == Style::kCompact || !(is_colon || follows_comma(phase))) return kNoLexicalState;
  if (style >= Style::kByTwo) return is_colon ? LexicalState(style, 1) : kNoLexicalState;
  return {Style::kSpaced, 1};
}

// The style of a text in which a byte that is no blank comes next; -1 for none.
inline int32_t style_behind(Phase phase, LexicalState lexical, int32_t byte) {
  Style style = lexical.style();
  int32_t written = lexical.written();
  const bool ends = byte == ']' || byte == '}';
  if (written > 0) {
    if (style == Style::kUndecided) {
      // Two blanks are there: not none, and no four.
      style = Style::kByTwo;
      written = written == 3 ? 1 : 2;
    }
    const bool stands = !(is_open(phase) && ends) && (ends || !is_next(phase));
    return written == 1 && stands ? static_cast<int32_t>(style) : -1;
  }
  if (phase == Phase::kObjectValue || follows_comma(phase)) {
    const bool has_none = style == Style::kOneLine || style == Style::kCompact;
    return has_none ? static_cast<int32_t>(Style::kCompact) : -1;
  }
  const bool is_member = is_open(phase) && !ends, is_end = is_next(phase) && ends;
  if ((is_member || is_end) && style >= Style::kByTwo) return -1;
  if (is_member && style == Style::kUndecided) style = Style::kOneLine;
  return static_cast<int32_t>(style);
}

class Layout : public Members {
 public:
  using Members::Members;

 protected:
  // The lexical state between strings before which no blank stands.
  LexicalState between(Style style) const {
    return p.layout ? LexicalState(style, 0) : LexicalState(p.blank);
  }

  // The lexical state after a blank; none where it may not come.
  LexicalState lexical_after_blank(int32_t frame, LexicalState lexical, int32_t byte) {
    const Style style = lexical.style();
    const int32_t written = lexical.written();
    const Phase phase = this->frame(frame).phase;
    if (written > 0 && style == Style::kUndecided) return first_indentation(written, byte);
    if (written > 0) {
      const bool goes_on = written > 1 && byte == (style == Style::kByTab ? '\t' : ' ');
      return goes_on ? LexicalState(style, written - 1) : kNoLexicalState;
    }
    if (byte == ' ') return after_space(style, phase);
    const bool has_lines = style == Style::kUndecided || style >= Style::kByTwo;
    if (byte != '\n' || !has_lines || !line_may_break(frame, phase)) return kNoLexicalState;
    return {style, style == Style::kUndecided ? 1 : 1 + indentation(frame, style)};
  }

 private:
  // Whether a member, or the bracket behind the last, may stand on a new line.
  bool line_may_break(int32_t frame, Phase phase) {
    if (is_next(phase)) return closed(frame) >= 0;
    if (phase == Phase::kObjectOpen) return keys_of(frame, Phase::kKey) >= 0;
    if (phase == Phase::kArrayOpen) return elements_of(frame) >= 0;
    return follows_comma(phase);
  }

  // How many blanks indent a new line; O(levels).
  int32_t indentation(int32_t frame, Style style) const {
    int32_t depth = is_next(this->frame(frame).phase) ? -1 : 0;
    while (frame >= 0) {
      const Frame at = this->frame(frame);
      depth += at.phase != Phase::kRootValue;
      frame = at.parent;
    }
    if (style == Style::kByTab) return depth;
    return depth * (style == Style::kByFour ? 4 : p.layout <= kMostIndent ? p.layout : 2);
  }
};

}  // namespace cdec::schemas

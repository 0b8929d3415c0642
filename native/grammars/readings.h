// Parser configurations moved byte by byte over the bytes of a token.
//
// A *reading* of the bytes so far is a scanner state and a stack. For the deterministic parser they are
// in order of precedence (each is the fallback of the one before it), for the generalised one a set.
#pragma once

#include "parser.h"

namespace cdec::grammars {

struct Reading {
  int32_t at;
  Stack stack;
  int32_t ended = 0;  // terminals that ended within the token at hand, with a lookahead
};

class Reader {
 public:
  Reader(const Grammar &grammar, Stacks &stacks, Indents &indents, Parser &parser)
      : grammar_(grammar), stacks_(stacks), indents_(indents), parser_(parser) {}

  using Text = std::span<const uint8_t>;

  void begin() { readings.clear(); }
  void begin(int64_t at, Stack stack) { readings.assign(1, {static_cast<int32_t>(at), stack}); }
  // Moves the readings over some bytes within a token.
  void step_over(Text text) { step_over(text, grammar_.lookahead != Grammar::kUnlimited); }
  // Moves the readings over the bytes of a token, of which some lookahead is allowed; none are left
  // if the token is not.
  void read(Text text, int64_t lookahead);
  // Whether a token is allowed; the readings are left before its end. No stack is made for a
  // terminal that ends with the token, which may be most of the work.
  bool allows(Text text);

  // The reading state after a terminal: the start of its context, marked as a start.
  int64_t start_after(Stack stack, int64_t terminal) const;
  // Adds a reading to others; those of one scanner state share a stack.
  void unite(std::vector<Reading> &readings, const Reading &reading);

  std::vector<Reading> readings;

 private:
  void step_over(Text text, bool counts);
  void step_ordered(uint8_t byte, bool counts);
  void step_set(uint8_t byte, bool counts);
  void finish(int64_t lookahead);
  Stack after(Stack stack, int64_t terminal);
  bool ends_any(Stack stack, std::span<const int32_t> terminals);

  const Grammar &grammar_;
  Stacks &stacks_;
  Indents &indents_;
  Parser &parser_;
  std::vector<Reading> next_;
};

}  // namespace cdec::grammars

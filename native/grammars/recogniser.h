// Parser configurations moved byte by byte over the bytes of a token.
//
// A *configuration* is what the bytes so far may have led to: a scanner state and a stack. For the
// deterministic parser they are in order of precedence (each is the fallback of the one before it), for
// the generalised one a set.
#pragma once

#include <tuple>

#include "parser.h"

namespace cdec::grammars {

struct Configuration {
  int32_t at;
  Stack stack;
  int32_t ended = 0;  // terminals that ended within the token at hand, with a lookahead
  // Of the terminal under way, where tokens count: twice as many as have a byte of it, plus 1 where
  // the token at hand has one.
  int32_t tokens = 0;
  // Where rules count them: tokens behind the one in which the stack's last terminal ended; kWithin
  // where that is the token at hand.
  int32_t since = 0;

  static constexpr int32_t kWithin = -1;
};

class Recogniser {
 public:
  Recogniser(const Grammar &grammar, Stacks &stacks, Indents &indents, Parser &parser)
      : grammar_(grammar), stacks_(stacks), indents_(indents), parser_(parser) {}

  using Text = std::span<const uint8_t>;

  void begin(int64_t at, Stack stack) {
    configurations.assign(1, {static_cast<int32_t>(at), stack});
  }
  // Moves over some bytes within a token.
  void step_over(Text text) { step_over(text, grammar_.lookahead != Grammar::kUnlimited); }
  // Moves over the bytes of a token, of which some lookahead is allowed; no configuration is left if
  // the token is not.
  void read(Text text, int64_t lookahead);
  // Whether a token is allowed; the configurations are left before its end. No stack is made for a
  // terminal that ends with the token, which may be most of the work.
  bool allows(Text text);

  // The scanner state after a terminal: the start of its context, marked as a start.
  int64_t start_after(Stack stack, int64_t terminal) const;

  // Adds the beginnings of members of sets behind what takes their terminals.
  void begin_sets(const Configuration &behind);
  // The same to the configurations there are.
  void begin_sets_of(Stack stack);

  // Moves over one byte; `shift` gives the stack after a stack and a terminal that completes there, or
  // kFail. Of ordered configurations one that completes a single terminal ends the list; several are
  // ends of which the text behind them chooses, and the configurations after them stay. `behind` is
  // told of what stands behind a terminal.
  template <class Shift, class Behind>
  void step(uint8_t byte, bool counts, Shift &&shift, Behind &&behind) {
    next_.clear();
    for (const Configuration &from : configurations) {
      const int64_t at = grammar_.scan(from.at, byte);
      if (at < 0) continue;
      if (grammar_.is_place(at)) {
        const auto place = static_cast<int32_t>(at);
        const int32_t tokens = grammar_.counts_rules() ? counted(from) : 0;
        if (grammar_.sets.bytes(place).any())
          add({place, from.stack, from.ended, tokens, from.since});
        if (!grammar_.sets.is_member(place)) continue;
        const int32_t terminal = grammar_.set_terminals[grammar_.sets.set(place)];
        const Stack stack = shift(from.stack, terminal);
        if (stack == kFail) continue;
        const Configuration fresh = ended(from, stack, terminal, tokens, counts);
        if (fresh.stack == kFail) continue;
        add(fresh);
        behind(fresh);
        continue;
      }
      const int32_t tokens = counted(from);
      if (grammar_.is_live(at))
        add_live({static_cast<int32_t>(at), from.stack, from.ended, tokens, from.since});
      const auto matches = grammar_.matches(at);
      for (const int32_t terminal : matches) {
        if (grammar_.is_too_many(terminal, tokens)) continue;
        const Stack stack = shift(from.stack, terminal);
        if (stack == kFail) continue;
        const Configuration fresh = ended(from, stack, terminal, tokens, counts);
        if (fresh.stack == kFail) continue;
        add(fresh);
        behind(fresh);
      }
      if (matches.size() == 1 && !grammar_.is_general) break;
    }
    configurations.swap(next_);
  }

  // Keeps the configurations that matter after a token, none if it is not allowed.
  void finish(int64_t lookahead);

  // Whether a configuration can go on, or end, and has ended no more terminals than the lookahead lets.
  bool is_viable(const Configuration &configuration, int64_t lookahead);

  std::vector<Configuration> configurations;
  // Whether tokens are counted; not where stacks have no ages, and every number is as good.
  bool is_counting = true;

 private:
  void step_over(Text text, bool counts);
  void add(const Configuration &configuration);
  // How many tokens a configuration's terminal has with the one at hand.
  int32_t counted(const Configuration &from) const {
    if (!is_counting || !grammar_.counts_tokens()) return 0;
    const int32_t tokens = from.tokens + (from.tokens & 1 ? 0 : 3);
    return grammar_.counts_rules() ? grammar_.few(tokens) : tokens;
  }
  bool has_ages() const { return is_counting && grammar_.counts_rules(); }
  // What stands behind a terminal that ended, and left a stack.
  Configuration ended(const Configuration &from, Stack stack, int32_t terminal, int32_t tokens,
                      bool counts) {
    const auto at = static_cast<int32_t>(start_after(stack, terminal));
    Configuration fresh{at, stack, counts ? from.ended + 1 : 0, 0, from.since};
    if (!has_ages() || !grammar_.is_terminal(terminal) || grammar_.is_ignored(terminal)) return fresh;
    fresh.stack = parser_.grown(stack, from.since + 1, tokens >> 1);
    fresh.since = Configuration::kWithin;
    return fresh;
  }
  // Adds a configuration within a terminal. One that has too many tokens stays in an ordered list: it
  // takes precedence, and leads nowhere.
  void add_live(Configuration configuration) {
    if (configuration.tokens > 0) {
      if (!has_ages() && !grammar_.is_counted(configuration.at)) configuration.tokens = 0;
      if (grammar_.is_general && grammar_.is_over(configuration.at, configuration.tokens)) return;
    }
    add(configuration);
  }
  bool can_go_on(const Configuration &configuration);
  Stack after(Stack stack, int64_t terminal);
  bool ends_any(Stack stack, std::span<const int32_t> terminals);

  const Grammar &grammar_;
  Stacks &stacks_;
  Indents &indents_;
  Parser &parser_;
  std::vector<Configuration> next_;
};

}  // namespace cdec::grammars

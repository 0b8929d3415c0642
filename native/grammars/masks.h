// Exact masks: of a configuration by the automaton over its stack, of a decoding state by its
// configurations.
//
// The automaton of a tree reads the stack until nothing waits; a stack that forks is read along every
// way, each pair of state and stack once. Tokens with too many configurations to stand in a tree are
// stepped byte by byte, once for a scanner state and stack.
#pragma once

#include "mask_automaton.h"

namespace cdec::grammars {

// The row of a stepped mask whose call had to come back, and what of it is done.
struct PausedRow {
  bool is_set = false;
  int64_t key = 0, done = 0;
  MaskStore::Row row;
};

class Masks {
 public:
  Masks(const Grammar &grammar, Memory &memory, int64_t at_once, Trees &trees, Stacks &stacks,
        Indents &indents, Parser &parser, Recogniser &recogniser, MaskAutomaton &automaton,
        Work &work)
      : store(grammar, &memory.memos),
        grammar_(grammar),
        at_once_(at_once),
        trees_(trees),
        stacks_(stacks),
        indents_(indents),
        parser_(parser),
        recogniser_(recogniser),
        automaton_(automaton),
        work_(work),
        of_lists_(&memory.memos),
        runs_(&memory.memos),
        stepped_(&memory.memos),
        open_(&memory.memos) {}

  // The mask of configurations. Deterministic parser: a later one allows only tokens within which no
  // earlier one completes its terminal. Generalised parser: the union.
  int64_t of(std::span<const Configuration> configurations);

  MaskStore store;
  // Where a row of the call at hand stays if it has to come back.
  PausedRow *paused = nullptr;

 private:
  // Work on an automaton for one mask, for every segmentation; a mask that takes more is stepped.
  static constexpr int64_t kWork = 1 << 17;
  static constexpr int64_t kWide = 64;  // vertices side by side
  // No mask yet: what is left of the stack stands in `remainder_`.
  static constexpr int64_t kUnfinished = -1;

  struct Remainder {
    int64_t state;
    Stack stack;
  };

  int64_t of_configuration(int64_t at, Stack stack);
  int64_t read_or_step(int64_t at, Stack stack);
  int64_t read(int64_t at, int64_t tree, Stack stack);
  int64_t follow(int64_t state, Stack stack);
  int64_t run(Remainder rest);
  int64_t union_of_ways(Remainder rest);
  int64_t of_state(int64_t state);
  int64_t stepped(int64_t at, Stack stack);
  void step(PausedRow &work, int64_t at, Stack stack);
  void step_group(MaskStore::Row &row, int64_t group, int64_t at, Stack stack);

  // The token stepped last, and how many of its bytes the configurations have read.
  struct LastToken {
    std::span<const uint8_t> text;
    size_t done = 0;
  };
  void step_token(MaskStore::Row &row, int64_t token, int64_t at, Stack stack, LastToken &last);
  bool continues(const LastToken &last, std::span<const uint8_t> text) const;

  const Grammar &grammar_;
  const int64_t at_once_;  // LR states read from a stack before what is left of it is remembered
  Trees &trees_;
  Stacks &stacks_;
  Indents &indents_;
  Parser &parser_;
  Recogniser &recogniser_;
  MaskAutomaton &automaton_;
  Work &work_;
  Table of_lists_;  // list of what is allowed -> mask
  Table runs_;      // (state of the automaton, stack) -> mask
  Table stepped_;   // (scanner state, stack) -> mask of the tokens that are stepped
  Remainder remainder_{};
  std::pmr::vector<Remainder> open_;
};

}  // namespace cdec::grammars

// How few bytes a text still needs, as far as parser and scanner know it apart from each other.
//
// A stack is left by what follows the dots in the items of its LR states; the fewest bytes of every
// nonterminal are a least fixpoint (Knuth 1977, "A generalization of Dijkstra's algorithm"). A text
// may need more, where terminals that meet want a blank between them: what is found is a guess.
#pragma once

#include <unordered_map>

#include "recogniser.h"

namespace cdec::grammars {

class FewestBytes {
 public:
  static constexpr int64_t kFar = INT32_MAX;  // where no end is found

  FewestBytes(const Grammar &grammar, const Stacks &stacks, const Indents &indents)
      : grammar_(grammar), stacks_(stacks), indents_(indents) {}

  // Of one of some configurations; their stacks stay for good.
  int64_t of(std::span<const Configuration> configurations, Parser &parser);

 private:
  static constexpr size_t kMostScanned = 1 << 15;  // states of the scanner that are looked at
  static constexpr int64_t kMostSymbols = 1 << 24;  // of all rules

  struct Ending {
    int32_t terminal, bytes;
  };
  using Row = std::vector<int64_t>;  // by nonterminal that an LR state goes on by

  void measure_rules();
  std::vector<int32_t> symbols_of_states() const;
  Row bytes_of_terminals();
  const std::vector<Ending> &endings_of(int64_t at);
  int64_t of_stack(Stack stack);
  int64_t of_vertex(Stack vertex);
  Row &known_rows(Stack vertex);
  Row row_of(Stack vertex);
  int64_t behind(Stack vertex, int64_t levels, int64_t nonterminal);
  int64_t place(int64_t state, int64_t nonterminal) const;
  bool takes_end(int64_t state) const;
  bool is_state(int64_t state) const { return 0 <= state && state < grammar_.lr_states; }
  Range gotos(int64_t state) const {
    if (!is_state(state)) return {0, 0};
    return range_of(grammar_.columns.goto_offsets, state, grammar_.columns.goto_symbols.size);
  }
  Range items(int64_t state) const {
    if (!is_state(state)) return {0, 0};
    return range_of(grammar_.columns.item_offsets, state, grammar_.columns.item_rules.size);
  }
  // The place of an item's dot in `rests_`; -1 where the artifact is damaged.
  int64_t place_of_dot(int64_t item) const {
    const int64_t rule = grammar_.columns.item_rules[item], dot = grammar_.columns.item_dots[item];
    const bool is_rule = 0 <= rule && rule < grammar_.rules;
    return is_rule && 0 <= dot && dot < first_[rule + 1] - first_[rule] ? first_[rule] + dot : -1;
  }
  // Bytes of what follows the dot of an item.
  int64_t rest_of(int64_t item) const {
    const int64_t at = place_of_dot(item);
    return at < 0 ? kFar : rests_[at];
  }

  const Grammar &grammar_;
  const Stacks &stacks_;
  const Indents &indents_;
  std::vector<int64_t> first_;         // by rule: its first place in `rests_`
  Row rests_, nonterminals_;           // bytes behind each dot; of nonterminals
  std::unordered_map<int64_t, std::vector<Ending>> endings_;  // by scanner state
  std::unordered_map<Stack, int64_t> vertices_;
  std::unordered_map<Stack, Row> rows_;  // by vertex: bytes behind each nonterminal on top of it
};

}  // namespace cdec::grammars

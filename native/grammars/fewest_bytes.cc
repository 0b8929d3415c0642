#include "fewest_bytes.h"

#include <unordered_set>

namespace cdec::grammars {

namespace {

int64_t sum(int64_t a, int64_t b) {
  return a >= FewestBytes::kFar || b >= FewestBytes::kFar ? FewestBytes::kFar : a + b;
}

}  // namespace

int64_t FewestBytes::of(std::span<const Configuration> configurations, Parser &parser) {
  if (first_.empty()) measure_rules();
  int64_t least = kFar;
  for (const auto &[at, stack, ended, tokens, since] : configurations) {
    if (grammar_.is_place(at) || at < 0) continue;
    if (grammar_.is_start(at)) {
      const bool is_end = parser.can_shift(stack, grammar_.terminals);
      least = std::min(least, is_end ? 0 : of_stack(stack));
      continue;
    }
    for (const auto &[terminal, bytes] : endings_of(at)) {
      if (bytes >= least) break;
      const Stack after = grammar_.is_ignored(terminal) ? stack : parser.shift(stack, terminal);
      if (after != kFail) least = std::min(least, sum(bytes, of_stack(after)));
    }
  }
  return least;
}

// -- terminals

// The terminals that end behind a scanner state, nearest first.
const std::vector<FewestBytes::Ending> &FewestBytes::endings_of(int64_t at) {
  const auto [known, is_new] = endings_.try_emplace(at);
  std::vector<Ending> &found = known->second;
  if (!is_new || !grammar_.is_row(grammar_.live_row(at))) return found;
  const size_t wanted = grammar_.live(grammar_.live_row(at)).size();
  std::unordered_set<int64_t> seen{at};
  std::vector<int64_t> layer{at}, next;
  for (int32_t bytes = 1; !layer.empty() && found.size() < wanted; ++bytes, layer.swap(next)) {
    next.clear();
    for (const int64_t from : layer)
      for (int64_t kind = 0; kind < grammar_.classes && seen.size() < kMostScanned; ++kind) {
        const int64_t after = grammar_.scan_class(from, kind);
        if (after < 0 || !seen.insert(after).second) continue;
        next.push_back(after);
        for (const int32_t terminal : grammar_.matches(after))
          if (grammar_.is_terminal(terminal) &&
              std::ranges::find(found, terminal, &Ending::terminal) == found.end())
            found.push_back({terminal, bytes});
      }
  }
  return found;
}

FewestBytes::Row FewestBytes::bytes_of_terminals() {
  Row found(grammar_.terminals + 1, kFar);
  for (int64_t context = 0; context < grammar_.columns.context_start.size; ++context) {
    const int64_t start = grammar_.start_of(context);
    if (start < 0 || start >= grammar_.scanner_states) continue;
    for (const auto &[terminal, bytes] : endings_of(start))
      found[terminal] = std::min<int64_t>(found[terminal], bytes);
  }
  if (!grammar_.is_indented) return found;
  // Line break, INDENT, DEDENT: what is not there has a byte, or more; blocks end without any.
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t terminal = grammar_.columns.indent_symbols[i];
    if (grammar_.is_terminal(terminal)) found[terminal] = i < 2;
  }
  return found;
}

// -- rules

// The symbol that leads to each LR state: a terminal, or `terminals` + 1 + a nonterminal; -1.
std::vector<int32_t> FewestBytes::symbols_of_states() const {
  const cdec_grammar &columns = grammar_.columns;
  std::vector<int32_t> found(grammar_.lr_states, -1);
  const auto note = [&](int64_t state, int64_t symbol) {
    if (is_state(state)) found[state] = static_cast<int32_t>(symbol);
  };
  for (int64_t i = 0; i < columns.action_terminals.size; ++i)
    if (columns.action_values[i] >= 0) note(columns.action_values[i], columns.action_terminals[i]);
  for (int64_t i = 0; i < columns.goto_symbols.size; ++i)
    note(columns.goto_states[i], grammar_.terminals + 1 + columns.goto_symbols[i]);
  return found;
}

void FewestBytes::measure_rules() {
  const cdec_grammar &columns = grammar_.columns;
  first_.assign(1, 0);
  int64_t most = -1;
  for (int64_t rule = 0; rule < grammar_.rules; ++rule) {
    // Numbers of a damaged artifact are not what is made room for.
    const int64_t length = std::max(columns.rule_length[rule], 0), lhs = columns.rule_lhs[rule];
    first_.push_back(first_.back() + (first_.back() + length < kMostSymbols ? length : 0) + 1);
    if (lhs < kMostSymbols) most = std::max(most, lhs);
  }
  // What stands before the dot of an item leads to its state.
  std::vector<int32_t> symbols(first_.back(), -1);
  const std::vector<int32_t> leads = symbols_of_states();
  for (int64_t state = 0; state < grammar_.lr_states; ++state) {
    const Range own = items(state);
    for (int64_t item = own.begin; item < own.end; ++item)
      if (const int64_t at = place_of_dot(item); at >= 0 && columns.item_dots[item] > 0)
        symbols[at - 1] = leads[state];
  }
  const Row terminals = bytes_of_terminals();
  nonterminals_.assign(most + 1, kFar);
  rests_.assign(first_.back(), kFar);
  const auto bytes_of = [&](int64_t symbol) {
    if (symbol <= grammar_.terminals) return symbol < 0 ? kFar : terminals[symbol];
    const int64_t nonterminal = symbol - grammar_.terminals - 1;
    return 0 <= nonterminal && nonterminal <= most ? nonterminals_[nonterminal] : kFar;
  };
  for (bool is_over = false; !is_over;) {
    is_over = true;
    for (int64_t rule = 0; rule < grammar_.rules; ++rule) {
      int64_t at = first_[rule + 1] - 1;
      for (rests_[at] = 0; at > first_[rule]; --at)
        rests_[at - 1] = sum(rests_[at], bytes_of(symbols[at - 1]));
      if (columns.rule_lhs[rule] < 0 || columns.rule_lhs[rule] > most) continue;
      int64_t &known = nonterminals_[columns.rule_lhs[rule]];
      if (rests_[at] >= known) continue;
      known = rests_[at];
      is_over = false;
    }
  }
}

// -- stacks

bool FewestBytes::takes_end(int64_t state) const {
  const int64_t action = grammar_.action(state, grammar_.terminals);
  return action >= 0 && grammar_.columns.action_values[action] >= 0;
}

int64_t FewestBytes::place(int64_t state, int64_t nonterminal) const {
  const Range own = gotos(state);
  const int64_t at = place_of(grammar_.columns.goto_symbols, own, nonterminal);
  return at < 0 ? -1 : at - own.begin;
}

int64_t FewestBytes::of_stack(Stack stack) {
  stack = indents_.parser_stack(stack);
  int64_t least = kFar;
  for (int64_t i = 0; i < stacks_.count(stack); ++i)
    least = std::min(least, of_vertex(stacks_.member(stack, i)));
  return least;
}

int64_t FewestBytes::of_vertex(Stack vertex) {
  if (const auto known = vertices_.find(vertex); known != vertices_.end()) return known->second;
  const int64_t state = stacks_[vertex].state;
  int64_t least = takes_end(state) ? 0 : kFar;
  const Range own = items(state);
  for (int64_t item = own.begin; item < own.end; ++item) {
    const int64_t levels = grammar_.columns.item_dots[item], rest = rest_of(item);
    if (levels == 0 || rest >= least) continue;
    const int64_t nonterminal = grammar_.columns.rule_lhs[grammar_.columns.item_rules[item]];
    least = std::min(least, sum(rest, behind(vertex, levels, nonterminal)));
  }
  if (state == 0) {
    const Range all = gotos(state);
    for (int64_t at = all.begin; at < all.end; ++at) {
      const int64_t nonterminal = grammar_.columns.goto_symbols[at];
      if (0 <= nonterminal && nonterminal < static_cast<int64_t>(nonterminals_.size()))
        least = std::min(least, sum(nonterminals_[nonterminal], behind(vertex, 0, nonterminal)));
    }
  }
  return vertices_[vertex] = least;
}

// Bytes behind a nonterminal on top of what lies some levels below a vertex.
int64_t FewestBytes::behind(Stack vertex, int64_t levels, int64_t nonterminal) {
  std::vector<Stack> level{vertex}, next;
  for (; levels > 0; --levels, level.swap(next)) {
    next.clear();
    for (const Stack each : level) {
      const Stack below = stacks_[each].below;
      for (int64_t i = 0; i < stacks_.count(below); ++i) next.push_back(stacks_.member(below, i));
    }
    std::ranges::sort(next);
    next.erase(std::ranges::unique(next).begin(), next.end());
  }
  int64_t least = kFar;
  for (const Stack each : level) {
    const int64_t at = place(stacks_[each].state, nonterminal);
    if (at >= 0) least = std::min(least, known_rows(each)[at]);
  }
  return least;
}

// The row of a vertex, made after those of all that lies below it.
FewestBytes::Row &FewestBytes::known_rows(Stack vertex) {
  std::vector<Stack> waiting{vertex};
  while (!waiting.empty()) {
    const Stack at = waiting.back();
    const size_t before = waiting.size();
    const Stack below = rows_.contains(at) ? kNone : stacks_[at].below;
    for (int64_t i = 0; i < stacks_.count(below); ++i)
      if (const Stack each = stacks_.member(below, i); !rows_.contains(each)) waiting.push_back(each);
    if (waiting.size() > before) continue;
    if (!rows_.contains(at)) rows_.emplace(at, row_of(at));
    waiting.pop_back();
  }
  return rows_.at(vertex);
}

FewestBytes::Row FewestBytes::row_of(Stack vertex) {
  const cdec_grammar &columns = grammar_.columns;
  const int64_t state = stacks_[vertex].state;
  const Range own = gotos(state);
  Row found(own.size(), kFar);
  struct Step {
    int64_t from, to, bytes;
  };
  std::vector<Step> steps;  // from one nonterminal on top of the vertex to another
  for (int64_t at = 0; at < own.size(); ++at) {
    const int64_t target = columns.goto_states[own.begin + at];
    if (takes_end(target)) found[at] = 0;
    const Range kernel = items(target);
    for (int64_t item = kernel.begin; item < kernel.end; ++item) {
      const int64_t rest = rest_of(item), levels = columns.item_dots[item] - 1;
      if (rest >= kFar) continue;
      const int64_t nonterminal = columns.rule_lhs[columns.item_rules[item]];
      if (levels > 0 && rest < found[at])
        found[at] = std::min(found[at], sum(rest, behind(vertex, levels, nonterminal)));
      if (const int64_t to = levels == 0 ? place(state, nonterminal) : -1; to >= 0)
        steps.push_back({at, to, rest});
    }
  }
  for (bool is_over = false; !is_over;) {
    is_over = true;
    for (const auto &[from, to, bytes] : steps)
      if (const int64_t total = sum(bytes, found[to]); total < found[from])
        found[from] = total, is_over = false;
  }
  return found;
}

}  // namespace cdec::grammars

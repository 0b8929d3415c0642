#include "recogniser.h"

namespace cdec::grammars {

int64_t Recogniser::start_after(Stack stack, int64_t terminal) const {
  int64_t context = -1;
  if (grammar_.is_general) {
    context = grammar_.columns.terminal_context[terminal];
  } else if (stack = indents_.parser_stack(stack); stack >= 0) {
    const int64_t state = grammar_.lr_of(stacks_[stack].state);
    context = state < grammar_.lr_states ? grammar_.columns.lr_context[state] : -1;
  }
  const int64_t start = grammar_.start_of(context);
  return start < 0 ? -1 : start + grammar_.scanner_states;
}

// The stack after a completed terminal (the same after an ignored one), or kFail.
Stack Recogniser::after(Stack stack, int64_t terminal) {
  if (!grammar_.is_terminal(terminal)) return kFail;
  return grammar_.is_ignored(terminal) ? stack : parser_.shift(stack, terminal);
}

void Recogniser::step_over(Text text, bool counts) {
  for (const uint8_t byte : text) {
    if (configurations.empty()) return;
    step(
        byte, counts, [this](Stack stack, int32_t terminal) { return after(stack, terminal); },
        [this](const Configuration &behind) { begin_sets(behind); });
  }
}

void Recogniser::begin_sets(const Configuration &behind) {
  for (int64_t set = 0; set < grammar_.sets.size(); ++set)
    if (parser_.can_shift(behind.stack, grammar_.set_terminals[set]))
      add({grammar_.sets.start(set), behind.stack, behind.ended, 0, behind.since});
}

void Recogniser::begin_sets_of(Stack stack) {
  next_.swap(configurations);
  begin_sets({0, stack});
  std::ranges::sort(next_, {}, &Configuration::at);
  configurations.swap(next_);
}

bool Recogniser::is_viable(const Configuration &configuration, int64_t lookahead) {
  const auto &[at, stack, ended, tokens, since] = configuration;
  const bool is_begun =
      grammar_.is_start(at) || grammar_.is_place(at) || (at >= 0 && can_go_on(configuration));
  return is_begun && ended - grammar_.is_unread(at) <= lookahead;
}

// Whether a terminal that is under way, and has not too many tokens, can be shifted or is ignored.
bool Recogniser::can_go_on(const Configuration &configuration) {
  const int64_t row = grammar_.live_row(configuration.at);
  if (configuration.tokens == 0) return parser_.can_shift_any(configuration.stack, row);
  // Behind the token at hand there is one more.
  const int32_t tokens = configuration.tokens + (configuration.tokens & 1 ? 0 : 2);
  if (!grammar_.is_row(row)) return false;
  return std::ranges::any_of(grammar_.live(row), [&](int32_t terminal) {
    return grammar_.is_terminal(terminal) && !grammar_.is_too_many(terminal, tokens) &&
           (grammar_.is_ignored(terminal) || parser_.can_shift(configuration.stack, terminal));
  });
}

// Adds a configuration to the next ones. In a set those of one scanner state share a stack; in an
// ordered list an equal one before it takes precedence.
void Recogniser::add(const Configuration &configuration) {
  for (Configuration &each : next_) {
    if (each.at != configuration.at || each.ended != configuration.ended ||
        each.tokens != configuration.tokens || each.since != configuration.since)
      continue;
    if (each.stack == configuration.stack) return;
    if (!grammar_.is_general) continue;
    each.stack = stacks_.unite(each.stack, configuration.stack);
    return;
  }
  next_.push_back(configuration);
}

void Recogniser::read(Text text, int64_t lookahead) {
  step_over(text, lookahead != Grammar::kUnlimited);
  finish(lookahead);
}

// Keeps the configurations that matter after a token, none if it is not allowed.
//
// Of ordered configurations one that is not viable is kept before others, because it takes precedence
// over them; a set is sorted. The token is allowed if a viable configuration has ended no more
// terminals within it than the lookahead permits.
void Recogniser::finish(int64_t lookahead) {
  size_t kept = 0;
  bool allowed = false;
  next_.clear();
  for (const auto &[at, stack, ended, counted, before] : configurations) {
    const int32_t tokens = counted & ~1;
    const int32_t since = has_ages() ? grammar_.few(2 * (before + 1)) / 2 : 0;
    const bool is_viable = this->is_viable({at, stack, 0, tokens}, Grammar::kUnlimited);
    allowed |= is_viable && ended - grammar_.is_unread(at) <= lookahead;
    if (!grammar_.is_general) {
      add({at, stack, 0, tokens, since});
    } else if (is_viable) {
      const auto key = [](const Configuration &each) {
        return std::tuple(each.at, each.tokens, each.since);
      };
      const std::tuple own(at, tokens, since);
      const auto place = std::ranges::lower_bound(next_, own, {}, key);
      if (place != next_.end() && key(*place) == own)
        place->stack = stacks_.unite(place->stack, stack);
      else
        next_.insert(place, {at, stack, 0, tokens, since});
    }
    if (is_viable) kept = next_.size();
  }
  next_.resize(allowed ? kept : 0);
  configurations.swap(next_);
}

bool Recogniser::allows(Text text) {
  if (text.empty()) return false;
  step_over(text.first(text.size() - 1));
  for (const Configuration &configuration : configurations) {
    const int64_t at = grammar_.scan(configuration.at, text.back());
    if (at < 0) continue;
    if (grammar_.is_place(at)) {
      if (configuration.ended <= grammar_.lookahead) return true;
      continue;
    }
    const auto matches = grammar_.matches(at);
    if (configuration.ended <= grammar_.lookahead &&
        (parser_.can_shift_any(configuration.stack, grammar_.live_row(at)) ||
         ends_any(configuration.stack, matches)))
      return true;
    if (matches.size() == 1 && !grammar_.is_general) break;
  }
  return false;
}

// Whether one of some matched terminals can be shifted, or is ignored.
bool Recogniser::ends_any(Stack stack, std::span<const int32_t> terminals) {
  return std::ranges::any_of(terminals, [&](int32_t terminal) {
    return grammar_.is_terminal(terminal) &&
           (grammar_.is_ignored(terminal) || parser_.can_shift(stack, terminal));
  });
}

}  // namespace cdec::grammars

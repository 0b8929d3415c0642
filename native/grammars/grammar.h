// The tables of a compiled grammar: scanner and LR parser, every index checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cdec_native.h"
#include "member_sets.h"

namespace cdec::grammars {

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  bool holds(int64_t at) const { return begin <= at && at < end; }
};

// Where an item of a ragged array of some length lies; offsets of a damaged artifact are clamped.
template <class Offsets>
Range range_of(const Offsets &offsets, int64_t index, int64_t length) {
  const int64_t begin = std::clamp<int64_t>(offsets[index], 0, length);
  return {begin, std::clamp<int64_t>(offsets[index + 1], begin, length)};
}

// Where a key first stands in an ascending part of an array, -1 if it does not.
inline int64_t place_of(const cdec_i32 &keys, Range range, int64_t key) {
  const int32_t *end = keys.at + range.end;
  const int32_t *found = std::lower_bound(keys.at + range.begin, end, key);
  return found != end && *found == key ? found - keys.at : -1;
}

class Grammar {
 public:
  static constexpr int64_t kUnlimited = CDEC_NO_LOOKAHEAD;

  Grammar(const cdec_grammar &columns, const cdec_grammar_settings &settings, cdec_i64 loop_state)
      : columns(columns),
        is_general(settings.general != 0),
        is_indented(columns.indent_symbols.size == 4 && !is_general),
        lookahead(settings.lookahead),
        classes(columns.delta.size / columns.live_row.size),
        scanner_states(settings.scanner_states),
        terminals(columns.ignored.size),
        lr_states(columns.action_offsets.size - 1),
        rules(columns.rule_lhs.size),
        live_rows(columns.live_offsets.size - 1),
        vocabulary(columns.vocabulary_offsets.size - 1),
        words((vocabulary + 31) / 32),
        trees(columns.tree_taken.size),
        sets(2 * scanner_states, std::pmr::new_delete_resource()),
        plain_states_(std::min<int64_t>(columns.loop_row.size ? columns.loop_row[0] : INT64_MAX,
                                         columns.live_row.size)),
        loop_state_(loop_state) {}

  // -- scanner: states from `scanner_states` on stand before the first byte of a terminal, and from
  // twice as many on are the places of members of sets.

  // The row that describes a scanner state, 0 <= at < scanner_states.
  int64_t row_of(int64_t at) const { return at < plain_states_ ? at : row_in_loop(at); }

  // The scanner state after a byte; -1 where the terminal stops.
  int64_t scan(int64_t at, uint8_t byte) const {
    if (is_place(at)) return sets.step(static_cast<int32_t>(at), byte);
    // What stands for members in the scanner is no byte of theirs.
    if (byte == kMarker && sets.size() > 0) return -1;
    return scan_class(at, columns.byte_class[byte]);
  }
  int64_t scan_class(int64_t at, int64_t byte_class) const {
    if (at >= scanner_states) at -= scanner_states;
    if (at < 0 || at >= scanner_states || byte_class < 0 || byte_class >= classes) return -1;
    const int64_t step = columns.delta[row_of(at) * classes + byte_class];
    const int64_t after = step >= -1 ? step : at + step + kRelative;
    return -1 <= after && after < scanner_states ? after : -1;
  }

  bool is_start(int64_t at) const { return at >= scanner_states && !is_place(at); }
  bool is_place(int64_t at) const { return at >= 2 * scanner_states && sets.size() > 0; }
  // Whether no byte of the terminal under way was read.
  bool is_unread(int64_t at) const {
    return is_place(at) ? sets.is_root(static_cast<int32_t>(at)) : is_start(at);
  }
  int64_t live_row(int64_t at) const { return columns.live_row[row_of(at)]; }
  // Whether some terminal can still be completed from a scanner state.
  bool is_live(int64_t at) const { return is_row(live_row(at)) && live(live_row(at)).size() > 0; }
  bool is_row(int64_t row) const { return 0 <= row && row < live_rows; }
  std::span<const int32_t> live(int64_t row) const {
    return part(columns.live_terminals, range_of(columns.live_offsets, row,
                                                 columns.live_terminals.size));
  }
  // The terminals that entering a scanner state completes.
  std::span<const int32_t> matches(int64_t at) const {
    return part(columns.match_terminals, range_of(columns.match_offsets, row_of(at),
                                                  columns.match_terminals.size));
  }
  // The start of a context, -1 where there is no such.
  int64_t start_of(int64_t context) const {
    const bool is_one = 0 <= context && context < columns.context_start.size;
    return is_one ? columns.context_start[context] : -1;
  }
  bool is_terminal(int64_t terminal) const { return 0 <= terminal && terminal < terminals; }
  bool is_ignored(int64_t terminal) const { return columns.ignored[terminal] != 0; }

  // -- numbers of tokens

  bool counts_tokens() const { return !terminal_tokens.empty() || counts_rules(); }
  // How many tokens a terminal may have, -1 where any number; less than `counted` (recogniser.h) says.
  int64_t most_tokens(int64_t terminal) const {
    return !terminal_tokens.empty() && is_terminal(terminal) ? terminal_tokens[terminal] : -1;
  }
  bool is_too_many(int64_t terminal, int32_t counted) const {
    const int64_t most = most_tokens(terminal);
    return most >= 0 && counted >> 1 > most;
  }
  // Whether a terminal under way at a scanner state may have so many; whether all have too many.
  bool is_counted(int64_t at) const {
    const int64_t row = live_row(at);
    return is_row(row) && std::ranges::any_of(live(row), [&](int32_t terminal) {
             return most_tokens(terminal) >= 0;
           });
  }
  bool is_over(int64_t at, int32_t counted) const {
    if (counted == 0) return false;
    const int64_t row = live_row(at);
    return is_row(row) && std::ranges::all_of(live(row), [&](int32_t terminal) {
             return is_too_many(terminal, counted);
           });
  }

  // -- ages: with how many tokens, up to the end of the last terminal, what stands at a place of a stack
  // was spelled from its first byte on. Where rules may have so many, the number of a vertex is an LR
  // state and an age; 0 where nobody asks for that of the state, or nothing was spelled.

  bool counts_rules() const { return !rule_tokens.empty(); }
  int64_t lr_of(int64_t state) const { return counts_rules() ? state % (lr_states + 2) : state; }
  int32_t age_of(int64_t state) const {
    return counts_rules() ? static_cast<int32_t>(state / (lr_states + 2)) : 0;
  }
  // An LR state, >= 0, with an age.
  int64_t with_age(int64_t lr_state, int64_t age) const {
    if (!counts_rules() || least_tokens(lr_state) < 0) return lr_state;
    return lr_state + (lr_states + 2) * std::min(age, oldest);
  }
  // The least number of a rule that may have begun with what an LR state stands for; -1 for none.
  int32_t least_tokens(int64_t lr_state) const {
    return 0 <= lr_state && lr_state < lr_states ? state_tokens[lr_state] : -1;
  }
  // Twice a number of tokens and perhaps 1: no more than matters.
  int32_t few(int32_t tokens) const {
    return std::min<int32_t>(tokens, static_cast<int32_t>(2 * most_counted) + (tokens & 1));
  }
  bool is_too_old(int64_t rule, int32_t age) const {
    return counts_rules() && rule_tokens[rule] >= 0 && age > rule_tokens[rule];
  }

  // -- parser

  // The first action of a state on a terminal, -1 if there is none.
  int64_t action(int64_t state, int64_t terminal) const {
    return state < 0 || state >= lr_states ? -1
                                           : place_of(columns.action_terminals,
                                                      actions(state), terminal);
  }
  // Whether a state has another action on the terminal behind one.
  bool has_more(int64_t state, int64_t action, int64_t terminal) const {
    return action + 1 < actions(state).end && columns.action_terminals[action + 1] == terminal;
  }
  // The LR state after a nonterminal, negative if there is none.
  int64_t goto_state(int64_t state, int64_t symbol) const {
    if (state < 0 || state >= lr_states) return -1;
    const Range range = range_of(columns.goto_offsets, state, columns.goto_symbols.size);
    const int64_t at = place_of(columns.goto_symbols, range, symbol);
    return at >= 0 && columns.goto_states[at] < lr_states ? columns.goto_states[at] : -1;
  }

  // The bytes of a token; none for an id without bytes or outside of the vocabulary.
  std::span<const uint8_t> text_of(int64_t token) const {
    if (token < 0 || token >= vocabulary) return {};
    const int64_t begin = columns.vocabulary_offsets[token];
    const int64_t end = columns.vocabulary_offsets[token + 1];
    if (begin < 0 || begin >= end || end > columns.vocabulary_bytes.size) return {};
    return {columns.vocabulary_bytes.at + begin, columns.vocabulary_bytes.at + end};
  }

  // The subterminal tree of a scanner state; 0 where the artifact is damaged.
  int64_t tree_of_state(int64_t at) const {
    if (at < 0 || at >= scanner_states) return 0;
    const int64_t tree = columns.tree_of_state[row_of(at)];
    return 0 <= tree && tree < trees ? tree : 0;
  }

  const cdec_grammar &columns;
  const bool is_general, is_indented;
  const int64_t lookahead, classes, scanner_states, terminals, lr_states, rules, live_rows,
      vocabulary, words, trees;

  // Sets that stand within, and the terminal of each. subtle: what is read of them depends on no call
  // before; places are numbered as they are met.
  mutable MemberSets sets;
  mutable std::vector<int32_t> set_terminals;
  mutable std::vector<int32_t> terminal_tokens;  // how many each may have, or empty
  mutable std::vector<int32_t> rule_tokens;      // the same of rules
  mutable std::vector<int32_t> state_tokens;     // by LR state, with rule_tokens: see least_tokens
  mutable std::vector<int32_t> state_most;       // the most of the rules it has begun, or any number
  mutable int64_t oldest = 0;  // an age beyond all numbers of rules; older ones are not told apart
  mutable bool is_exact = false;     // whether all states were followed to see which of them lead on
  mutable int64_t most_counted = 0;  // the same of terminals and rules

 private:
  static constexpr uint8_t kMarker = 0xFF;
  static constexpr int64_t kRelative = int64_t{1} << 30;

  static std::span<const int32_t> part(const cdec_i32 &array, Range range) {
    return {array.at + range.begin, array.at + range.end};
  }
  Range actions(int64_t state) const {
    return range_of(columns.action_offsets, state, columns.action_terminals.size);
  }
  int64_t row_in_loop(int64_t at) const {
    int64_t loop = loop_state_.size - 1;
    while (loop > 0 && loop_state_[loop] > at) --loop;
    if (loop < 0) return 0;
    const int64_t period = std::max(columns.loop_period[loop], 1);
    const int64_t within = at - loop_state_[loop], length = period * columns.loop_copies[loop];
    const int64_t place = within < length ? within % period : within - length + period;
    return std::clamp<int64_t>(columns.loop_row[loop] + place, 0, columns.live_row.size - 1);
  }

  const int64_t plain_states_;
  const cdec_i64 loop_state_;
};

}  // namespace cdec::grammars

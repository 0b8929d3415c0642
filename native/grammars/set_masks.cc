#include "set_masks.h"

namespace cdec::grammars {

int64_t SetMasks::of(std::span<const Configuration> configurations) {
  int64_t mask = -1;
  const auto join = [&](int64_t other) {
    mask = mask < 0 ? other : masks_.store.join(mask, -1, other);
  };
  for (const Configuration &configuration : configurations) {
    if (grammar_.is_place(configuration.at)) {
      join(of_place(configuration));
      continue;
    }
    join(masks_.of({&configuration, 1}));
    join(of_beginnings(configuration));
  }
  return mask;
}

// The tokens in which a member goes on.
int64_t SetMasks::of_place(const Configuration &configuration) {
  const int64_t key = pack(configuration.at, configuration.stack);
  const int64_t known = of_places_.find(key);
  if (known != Table::kAbsent) return known;
  MaskStore::Row row = masks_.store.row();
  {
    const Trial trial(stacks_, work_, parser_.paused);
    rests_.clear();
    const MemberSets &sets = grammar_.sets;
    const Walk walk{sets.set(configuration.at), sets.cursor(configuration.at), 0, nodes()};
    add_members(row, walk, configuration);
  }
  const int64_t mask = masks_.store.keep(row);
  of_places_.set(key, mask);
  return mask;
}

// The tokens in which a member begins behind other terminals.
int64_t SetMasks::of_beginnings(const Configuration &configuration) {
  int64_t at = configuration.at;
  if (grammar_.is_start(at)) at -= grammar_.scanner_states;
  const int64_t key = pack(at, configuration.stack);
  const int64_t known = of_beginnings_.find(key);
  if (known != Table::kAbsent) return known;
  MaskStore::Row row = masks_.store.row();
  {
    const Trial trial(stacks_, work_, parser_.paused);
    rests_.clear();
    const int32_t start = rest_of({{static_cast<int32_t>(at), configuration.stack}});
    for (const Place &place : places_of(at)) {
      int32_t rest = start;
      for (const uint8_t byte : place.text)
        if (rest >= 0) rest = rest_after(rest, byte);
      if (rest < 0) continue;
      const std::vector<Configuration> reached = rests_[rest].configurations;
      for (const Configuration &begun : reached) {
        if (!grammar_.is_place(begun.at) || !grammar_.sets.is_root(begun.at)) continue;
        const Walk walk{grammar_.sets.set(begun.at), grammar_.sets.cursor(begun.at), place.node + 1,
                        tokens_.skip[place.node]};
        add_members(row, walk, begun);
      }
    }
  }
  const int64_t mask = masks_.store.keep(row);
  of_beginnings_.set(key, mask);
  return mask;
}

// Adds the tokens of a walk: those within members, and those that go on behind one.
void SetMasks::add_members(MaskStore::Row &row, const Walk &walk, const Configuration &behind) {
  if (behind.ended > grammar_.lookahead) return;
  const Walked &found = walked(walk);
  for (const int32_t token : found.tokens) masks_.store.add_token(row, token);
  if (found.ends.empty()) return;
  const int32_t terminal = grammar_.set_terminals[walk.set];
  const Stack stack = parser_.shift(behind.stack, terminal);
  const int64_t fresh = stack == kFail ? -1 : recogniser_.start_after(stack, terminal);
  if (fresh < 0) return;
  const bool counts = grammar_.lookahead != Grammar::kUnlimited;
  recogniser_.configurations.assign(
      1, {static_cast<int32_t>(fresh), stack, counts ? behind.ended + 1 : 0});
  recogniser_.begin_sets_of(stack);
  if (counts)
    for (Configuration &each : recogniser_.configurations) each.ended = behind.ended + 1;
  const int32_t rest = rest_of(recogniser_.configurations);
  for (const int32_t node : found.ends) add_rest(row, rest, node);
}

// What a walk finds, kept: it depends on no stack.
const SetMasks::Walked &SetMasks::walked(const Walk &walk) {
  const int64_t key = pack(grammar_.sets.place_of(walk.set, walk.cursor), walk.first);
  const int64_t known = walk_index_.find(key);
  if (known != Table::kAbsent) return walked_[known];
  std::pmr::memory_resource *memory = walked_.get_allocator().resource();
  Walked found{Found(memory), Found(memory)};
  walk_nodes(walk, found);
  walked_.push_back(std::move(found));
  walk_index_.set(key, static_cast<int64_t>(walked_.size()) - 1);
  return walked_.back();
}

void SetMasks::walk_nodes(const Walk &walk, Walked &found) {
  if (walk.first >= walk.stop) return;
  const MemberSource &members = grammar_.sets.members(walk.set);
  const int32_t base = tokens_.depth[walk.first] - 1;
  depths_.assign(1, walk.cursor);
  for (int32_t node = walk.first; node < walk.stop;) {
    const auto depth = static_cast<size_t>(tokens_.depth[node] - base);
    const Cursor after = members.after(depths_[depth - 1], tokens_.node_byte[node]);
    if (after.is_dead()) {
      node = tokens_.skip[node];
      continue;
    }
    depths_.resize(std::max(depths_.size(), depth + 1));
    depths_[depth] = after;
    for (int32_t i = tokens_.token_offsets[node]; i < tokens_.token_offsets[node + 1]; ++i)
      found.tokens.push_back(tokens_.token_ids[i]);
    if (tokens_.skip[node] > node + 1 && members.is_member(after)) found.ends.push_back(node);
    ++node;
  }
  work_.spend((static_cast<int64_t>(found.tokens.size()) >> 4) + 1);
}

// -- where in the vocabulary members may begin

const std::vector<SetMasks::Place> &SetMasks::places_of(int64_t at) {
  const int64_t known = place_index_.find(at);
  if (known != Table::kAbsent) return places_[known];
  places_.emplace_back();
  find_places(at, places_.back());
  place_index_.set(at, static_cast<int64_t>(places_.size()) - 1);
  return places_.back();
}

// Walks the vocabulary's trie by the scanner alone, whatever the parser says.
void SetMasks::find_places(int64_t at, std::vector<Place> &found) {
  if (leads_.empty()) find_leading();
  std::vector<std::vector<int32_t>> states(1, {static_cast<int32_t>(at)});
  std::vector<uint8_t> text;
  for (int32_t node = 0; node < nodes();) {
    if (!leads_[node]) {
      node = tokens_.skip[node];
      continue;
    }
    const auto depth = static_cast<size_t>(tokens_.depth[node]);
    if (states.size() <= depth) states.resize(depth + 1);
    text.resize(depth);
    text[depth - 1] = tokens_.node_byte[node];
    bool may_begin = false;
    step_scanner(states[depth - 1], tokens_.node_byte[node], states[depth], may_begin);
    if (states[depth].empty()) {
      node = tokens_.skip[node];
      continue;
    }
    if (may_begin && begins_below(node)) found.push_back({node, text});
    ++node;
  }
}

// Whether a token goes on behind a node with a byte with which members begin.
bool SetMasks::begins_below(int32_t node) const {
  for (int32_t below = node + 1; below < tokens_.skip[node]; below = tokens_.skip[below])
    if (begins_[tokens_.node_byte[below]]) return true;
  return false;
}

// Marks the nodes at or below which a member may begin: behind a byte that ends a terminal which one
// may follow, and before one with which members begin. All others are left out of every walk.
void SetMasks::find_leading() {
  for (int64_t set = 0; set < grammar_.sets.size(); ++set)
    begins_ |= grammar_.sets.bytes(grammar_.sets.start(set));
  const ByteSet ends = ends_before_members();
  leads_.assign(nodes(), 0);
  for (int32_t node = nodes(); node-- > 0;) {
    leads_[node] = ends[tokens_.node_byte[node]] && begins_below(node);
    for (int32_t below = node + 1; !leads_[node] && below < tokens_.skip[node];
         below = tokens_.skip[below])
      leads_[node] = leads_[below];
  }
}

// The bytes with which terminals end that a member may follow; some more where repetitions are counted,
// whose copies share rows.
ByteSet SetMasks::ends_before_members() {
  const auto &columns = grammar_.columns;
  const int64_t rows = grammar_.classes > 0 ? columns.delta.size / grammar_.classes : 0;
  std::vector<uint8_t> is_end(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const Range own = range_of(columns.match_offsets, row, columns.match_terminals.size);
    for (int64_t at = own.begin; at < own.end; ++at) {
      const int32_t terminal = columns.match_terminals[at];
      is_end[row] |= grammar_.is_terminal(terminal) && is_followed(terminal);
    }
  }
  const bool is_any = std::ranges::find(is_end, 1) != is_end.end();
  std::vector<uint8_t> classes(grammar_.classes);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t each = 0; each < grammar_.classes; ++each) {
      const int64_t step = columns.delta[row * grammar_.classes + each];
      if (step == -1) continue;
      const bool is_plain = step >= 0 && step < grammar_.scanner_states;
      const int64_t after = is_plain ? grammar_.row_of(step) : rows;
      classes[each] |= after < rows ? is_end[after] : is_any;
    }
  ByteSet found;
  for (int byte = 0; byte < 256; ++byte) {
    const int64_t each = columns.byte_class[byte];
    found[byte] = 0 <= each && each < grammar_.classes && classes[each];
  }
  return found;
}

// Moves scanner states over a byte; terminals that end begin those of their contexts.
void SetMasks::step_scanner(const std::vector<int32_t> &from, uint8_t byte,
                            std::vector<int32_t> &after, bool &may_begin) {
  after.clear();
  const auto add = [&](int64_t at) {
    if (std::ranges::find(after, at) == after.end()) after.push_back(static_cast<int32_t>(at));
  };
  for (const int32_t state : from) {
    const int64_t at = grammar_.scan(state, byte);
    if (at < 0) continue;
    if (grammar_.is_live(at)) add(at);
    for (const int32_t terminal : grammar_.matches(at)) {
      if (!grammar_.is_terminal(terminal)) continue;
      may_begin |= is_followed(terminal);
      const int64_t start = grammar_.start_of(grammar_.columns.terminal_context[terminal]);
      if (start >= 0) add(start);
    }
  }
}

// Whether a member of a set may stand right behind a terminal.
bool SetMasks::is_followed(int64_t terminal) {
  if (grammar_.is_ignored(terminal)) return true;
  if (followed_.empty()) {
    followed_.assign(grammar_.terminals, 0);
    for (int64_t state = 0; state < grammar_.lr_states; ++state) {
      const Range actions = range_of(grammar_.columns.action_offsets, state,
                                     grammar_.columns.action_terminals.size);
      for (int64_t at = actions.begin; at < actions.end; ++at) {
        const int64_t read = grammar_.columns.action_terminals[at];
        const int64_t target = grammar_.columns.action_values[at];
        if (target < 0 || !grammar_.is_terminal(read)) continue;
        for (const int32_t set : grammar_.set_terminals)
          followed_[read] |= grammar_.action(target, set) >= 0;
      }
    }
  }
  return followed_[terminal];
}

// -- what stands behind a member: lists of configurations, each stepped once by a byte

int32_t SetMasks::rest_of(std::vector<Configuration> configurations) {
  const auto is_equal = [](const Configuration &a, const Configuration &b) {
    return a.at == b.at && a.stack == b.stack && a.ended == b.ended;
  };
  for (size_t i = 0; i < rests_.size(); ++i)
    if (std::ranges::equal(rests_[i].configurations, configurations, is_equal))
      return static_cast<int32_t>(i);
  Rest rest{std::move(configurations), false, {}};
  rest.after.fill(kUnknown);
  rest.is_viable = std::ranges::any_of(rest.configurations, [&](const Configuration &each) {
    return recogniser_.is_viable(each, grammar_.lookahead);
  });
  rests_.push_back(std::move(rest));
  return static_cast<int32_t>(rests_.size()) - 1;
}

int32_t SetMasks::rest_after(int32_t rest, uint8_t byte) {
  const int32_t known = rests_[rest].after[byte];
  if (known != kUnknown) return known;
  recogniser_.configurations = rests_[rest].configurations;
  recogniser_.step_over({&byte, 1});
  work_.spend(1);
  const int32_t after =
      recogniser_.configurations.empty() ? -1 : rest_of(recogniser_.configurations);
  rests_[rest].after[byte] = after;
  return after;
}

// Adds the tokens below a node whose bytes from there on can be read.
void SetMasks::add_rest(MaskStore::Row &row, int32_t rest, int32_t node) {
  for (int32_t below = node + 1; below < tokens_.skip[node]; below = tokens_.skip[below]) {
    const int32_t after = rest_after(rest, tokens_.node_byte[below]);
    if (after < 0) continue;
    if (rests_[after].is_viable) add_tokens_of(row, below);
    add_rest(row, after, below);
  }
}

}  // namespace cdec::grammars

// Terminals and rules that may have so many tokens: which states behind a token still lead on.
//
// Where rules have a number, those do from which some way to an end keeps all numbers
// (counted_ends.h). Else it is enough that the terminal under way ends in time.
// A configuration counts the tokens in which a byte of its terminal stands. Behind a token one is
// asked for that ends the terminal within what is left, or, where none does, for a second one, and so
// on: a search through the session's own states, as the tokens and the parser have it.
#pragma once

#include <array>
#include <unordered_set>

#include "counted_ends.h"

namespace cdec::grammars {

// `Session`: `engine`, `states`, `intern`, `load`, `may_end`, `next`, and what CountedEnds asks for.
template <class Session>
class Budgets {
 public:
  explicit Budgets(Session &session)
      : session_(session), engine_(session.engine), grammar_(engine_.grammar), ends_(session) {
    if (!grammar_.counts_rules()) measure();
  }

  // The state with which a token ends; CDEC_DEAD where no part under way can end in time.
  int64_t settle(int64_t state) {
    if (state < 0) return CDEC_DEAD;
    const bool is_on =
        grammar_.counts_rules() ? fewest(state) < kFarEnd : leads_on(state);
    return is_on ? state : CDEC_DEAD;
  }

  // The fewest tokens that are found from a state to an end; kFarEnd where none are.
  int64_t fewest(int64_t state) {
    if (grammar_.is_exact) follow_all(INT64_MAX);
    return ends_.fewest(state);
  }

  // The most of these behind any token that is allowed.
  int64_t ahead(int64_t state) {
    if (is_far(state)) return ends_.plain_ahead(state);
    if (const auto known = ahead_.find(state); known != ahead_.end()) return known->second;
    int64_t most = 0;
    std::unordered_set<int64_t> seen;
    walk(state, [&](int32_t, int64_t after) {
      if (seen.insert(after).second && settle(after) >= 0) most = std::max(most, fewest(after));
      return most >= kFarEnd;
    });
    return ahead_[state] = most;
  }

  // Follows all tokens from all states, where these have so few nodes of the vocabulary's trie, so that
  // it is known with how few tokens each ends. The states; -1 where they have more.
  int64_t follow_all(int64_t most_nodes) {
    if (all_.is_done) return all_.found;
    if (all_.states.empty()) all_.add(0);
    for (; all_.at < all_.states.size(); ++all_.at) {
      all_.edges.erase(std::ranges::find(all_.edges, all_.at, &Edge::from), all_.edges.end());
      nodes_ = 0;
      walk(all_.states[all_.at], [&](int32_t, int64_t after) {
        all_.edges.push_back({all_.at, all_.add(after)});
        return all_.nodes + nodes_ > most_nodes || all_.states.size() > kMostFollowed;
      });
      all_.nodes += nodes_;
      if (all_.nodes > most_nodes || all_.states.size() > kMostFollowed) return all_.end(-1);
    }
    measure_all();
    return all_.end(static_cast<int64_t>(all_.states.size()));
  }

  // The mask of a state.
  int64_t mask_of(int64_t state) {
    if (grammar_.counts_rules())
      return is_far(state) ? ends_.plain_mask(state) : mask_of_walk(state);
    return is_near(state) ? mask_of_walk(state) : engine_.mask_of(session_.states[state]);
  }

 private:
  static constexpr int64_t kMostStates = 1 << 12;  // of one search
  static constexpr int64_t kMostDepth = 1 << 8;    // terminals that are looked at, each behind another
  static constexpr int64_t kMostEdges = 1 << 26;   // of the scanner
  static constexpr size_t kMostFollowed = 1 << 12;  // states, where all are followed
  static constexpr int32_t kFar = INT32_MAX / 4;

  struct Edge {
    size_t from, to;
  };
  // All states, in the order in which they were met.
  struct All {
    size_t add(int64_t state) {
      const auto [at, is_new] = places.try_emplace(state, states.size());
      if (is_new) states.push_back(state);
      return at->second;
    }
    int64_t end(int64_t count) {
      is_done = true, found = count;
      edges.clear(), places.clear();
      return count;
    }

    std::vector<int64_t> states;
    std::unordered_map<int64_t, size_t> places;
    std::vector<Edge> edges;
    size_t at = 0;
    int64_t nodes = 0, found = -1;
    bool is_done = false;
  };

  // Writes down with how few tokens each of all states ends: breadth first from those that may.
  void measure_all() {
    std::vector<std::vector<size_t>> before(all_.states.size());
    for (const Edge &edge : all_.edges) before[edge.to].push_back(edge.from);
    std::vector<int64_t> fewest(all_.states.size(), kFarEnd);
    std::vector<size_t> layer, next;
    for (size_t i = 0; i < all_.states.size(); ++i)
      if (session_.may_end(all_.states[i])) fewest[i] = 0, layer.push_back(i);
    for (int64_t tokens = 1; !layer.empty(); ++tokens, layer.swap(next)) {
      next.clear();
      for (const size_t at : layer)
        for (const size_t from : before[at])
          if (fewest[from] == kFarEnd) fewest[from] = tokens, next.push_back(from);
    }
    for (size_t i = 0; i < all_.states.size(); ++i) ends_.note(all_.states[i], fewest[i]);
  }

  // Whether no part that is begun, here or up to an end, comes near its number with any token.
  bool is_far(int64_t state) {
    // Of several readings one may end within its numbers where the way is another's.
    if (grammar_.is_exact || grammar_.is_general) return false;
    return ends_.has_room(state, 1 + ends_.plain_ahead(state));
  }

  // Whether tokens that the grammar allows may be too many at a state.
  bool is_near(int64_t state) const {
    if (is_always_near_) return true;
    const auto configurations = session_.states[state];
    return std::ranges::any_of(configurations, [&](const Configuration &each) {
      return each.tokens > 0 && room(each) <= 0;
    });
  }

  // The mask of a state, by all tokens.
  int64_t mask_of_walk(int64_t state) {
    MaskStore &store = engine_.memos->masks.store;
    MaskStore::Row row = store.row();
    walk(state, [&](int32_t node, int64_t after) {
      if (settle(after) < 0) return false;
      for (int32_t i = tokens().token_offsets[node]; i < tokens().token_offsets[node + 1]; ++i)
        store.add_token(row, tokens().token_ids[i]);
      return false;
    });
    return store.keep(row);
  }

  const cdec_token_trie &tokens() const { return engine_.tokens; }

  // How many tokens more than enough are left behind another one; of several terminals that with the
  // least.
  int64_t room(const Configuration &each) const {
    int64_t least = kFar;
    for (const int32_t terminal : under_way(grammar_, each.at))
      if (const int64_t most = grammar_.most_tokens(terminal); most >= 0)
        least = std::min(least, most - (each.tokens >> 1) - 1 - needed_[terminal]);
    return least;
  }

  bool leads_on(int64_t state) {
    const auto configurations = session_.states[state];
    const Configuration &first = configurations.front();
    const bool is_counted = std::ranges::any_of(
        configurations, [](const Configuration &each) { return each.tokens > 0; });
    if (!is_counted || session_.may_end(state)) return true;
    if (grammar_.is_general &&
        std::ranges::any_of(configurations, [&](const Configuration &each) {
          return each.tokens == 0 || room(each) >= 0;
        }))
      return true;
    Recogniser &recogniser = engine_.memos->recogniser;
    if ((first.tokens == 0 || room(first) >= 0) &&
        recogniser.is_viable(first, Grammar::kUnlimited))
      return true;
    if (state >= static_cast<int64_t>(leads_on_.size()))
      leads_on_.resize(session_.states.size(), kUnknown);
    // One that is asked for meanwhile leads on if this one does.
    if (leads_on_[state] != kUnknown) return leads_on_[state] != kNowhere;
    if (depth_ == kMostDepth) return true;
    leads_on_[state] = kAsked;
    ++depth_;
    bool found = false;
    try {
      found = search(state);
    } catch (...) {
      leads_on_[state] = kUnknown;
      --depth_;
      throw;
    }
    --depth_;
    leads_on_[state] = found ? kOn : kNowhere;
    return found;
  }

  // Tries tokens until one ends the terminal that is under way.
  bool search(int64_t state) {
    std::vector<int64_t> open{state}, next;
    std::unordered_set<int64_t> seen{state};
    while (!open.empty()) {
      next.clear();
      for (const int64_t from : open) {
        const bool is_found = walk(from, [&](int32_t, int64_t after) {
          if (!seen.insert(after).second) return false;
          // One that has but the token at hand began in it.
          const auto goes_on = [](const Configuration &each) { return each.tokens > 2; };
          const auto found = session_.states[after];
          const size_t looked_at = grammar_.is_general ? found.size() : 1;
          if (!std::ranges::all_of(found.first(looked_at), goes_on)) return leads_on(after);
          if (session_.may_end(after)) return true;
          if (static_cast<int64_t>(seen.size()) < kMostStates) next.push_back(after);
          return false;
        });
        if (is_found) return true;
      }
      open.swap(next);
    }
    return false;
  }

  // Visits the nodes of the vocabulary's trie at which tokens end that the grammar allows, and the
  // states behind these, until `visit` is satisfied.
  template <class Visit>
  bool walk(int64_t state, Visit &&visit) {
    const cdec_token_trie &trie = tokens();
    Recogniser &recogniser = engine_.memos->recogniser;
    std::vector<std::vector<Configuration>> levels(1);
    const auto start = session_.states[state];
    levels[0].assign(start.begin(), start.end());
    const auto is_over = [&](const Configuration &each) {
      return grammar_.is_over(each.at, each.tokens);
    };
    for (int32_t node = 0; node < trie.depth.size;) {
      const auto depth = static_cast<size_t>(trie.depth[node]);
      if (levels.size() <= depth) levels.resize(depth + 1);
      const auto byte = static_cast<uint8_t>(trie.node_byte[node]);
      recogniser.configurations = levels[depth - 1];
      recogniser.step_over({&byte, 1});
      engine_.work.spend(1);
      ++nodes_;
      if (std::ranges::all_of(recogniser.configurations, is_over)) {
        node = trie.skip[node];
        continue;
      }
      levels[depth] = recogniser.configurations;
      if (trie.token_offsets[node] < trie.token_offsets[node + 1]) {
        recogniser.finish(grammar_.lookahead);
        const int64_t after = session_.intern(recogniser.configurations);
        if (after >= 0 && visit(node, after)) return true;
      }
      ++node;
    }
    return false;
  }

  // Finds with how many bytes each terminal can be ended, wherever it is; tokens are no more.
  void measure() {
    needed_.assign(grammar_.terminals, kFar);
    std::array<bool, 256> is_token{};
    const cdec_token_trie &trie = tokens();
    for (int32_t node = 0; node < trie.depth.size; node = trie.skip[node])
      is_token[trie.node_byte[node]] = trie.token_offsets[node] < trie.token_offsets[node + 1];
    const bool spells_all = std::ranges::all_of(is_token, [](bool is_one) { return is_one; });
    const bool is_small = grammar_.scanner_states * grammar_.classes < kMostEdges;
    for (int32_t terminal = 0; terminal < grammar_.terminals; ++terminal) {
      const int64_t most = grammar_.most_tokens(terminal);
      if (most < 0) continue;
      if (spells_all && is_small) needed_[terminal] = farthest(terminal);
      is_always_near_ |= most - 1 < needed_[terminal];
    }
  }

  // The most bytes that any scanner state needs to where a terminal may end, and one token more.
  int32_t farthest(int32_t terminal) const {
    std::vector<std::vector<int32_t>> before(grammar_.scanner_states);
    std::vector<int32_t> layer, next, distance(grammar_.scanner_states, kFar);
    const auto is_among = [&](std::span<const int32_t> some) {
      return std::ranges::find(some, terminal) != some.end();
    };
    for (int32_t at = 0; at < grammar_.scanner_states; ++at) {
      if (is_among(grammar_.matches(at))) distance[at] = 0, layer.push_back(at);
      for (int64_t kind = 0; kind < grammar_.classes; ++kind)
        if (const int64_t after = grammar_.scan_class(at, kind); after >= 0)
          before[after].push_back(at);
    }
    int32_t most = 0;
    for (int32_t steps = 1; !layer.empty(); ++steps) {
      next.clear();
      for (const int32_t at : layer)
        for (const int32_t from : before[at])
          if (distance[from] == kFar && is_among(under_way(grammar_, from)))
            distance[from] = most = steps, next.push_back(from);
      layer.swap(next);
    }
    return most + 1;
  }

  static constexpr int8_t kUnknown = -1, kNowhere = 0, kOn = 1, kAsked = 2;

  Session &session_;
  Engine &engine_;
  const Grammar &grammar_;
  std::vector<int32_t> needed_;   // by terminal
  std::vector<int8_t> leads_on_;  // by state
  bool is_always_near_ = false;
  int64_t depth_ = 0;  // of the search under way
  CountedEnds<Session> ends_;
  std::unordered_map<int64_t, int64_t> ahead_;
  All all_;
  int64_t nodes_ = 0;  // of the trie that were visited
};

// The fewest tokens of a terminal, of nothing but its bytes; -1 where none is found.
inline int64_t fewest_of(const Grammar &grammar, const cdec_token_trie &trie, int32_t terminal) {
  const auto is_among = [&](std::span<const int32_t> some) {
    return std::ranges::find(some, terminal) != some.end();
  };
  std::vector<int8_t> seen(grammar.scanner_states, 0);
  std::vector<int32_t> layer, next, path(1);
  const auto reach = [&](int64_t at, std::vector<int32_t> &into) {
    const bool is_one = 0 <= at && at < grammar.scanner_states;
    if (!is_one || seen[at] || !is_among(under_way(grammar, at))) return;
    seen[at] = 1;
    into.push_back(static_cast<int32_t>(at));
  };
  for (int64_t context = 0; context < grammar.columns.context_start.size; ++context)
    reach(grammar.start_of(context), layer);
  for (int64_t count = 1; !layer.empty(); ++count, layer.swap(next)) {
    next.clear();
    for (const int32_t from : layer) {
      path[0] = from;
      for (int32_t node = 0; node < trie.depth.size;) {
        const auto depth = static_cast<size_t>(trie.depth[node]);
        if (path.size() <= depth) path.resize(depth + 1);
        const auto byte = static_cast<uint8_t>(trie.node_byte[node]);
        const int64_t at = grammar.scan(path[depth - 1], byte);
        path[depth] = static_cast<int32_t>(at);
        const bool is_token = trie.token_offsets[node] < trie.token_offsets[node + 1];
        if (at >= 0 && is_token && is_among(grammar.matches(at))) return count;
        if (at >= 0 && is_token) reach(at, next);
        const bool is_open = is_among(under_way(grammar, at));
        node = is_open ? node + 1 : trie.skip[node];
      }
    }
  }
  return -1;
}

}  // namespace cdec::grammars

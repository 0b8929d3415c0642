// The trie of some words in front of an automaton, without what leads nowhere.
#include <algorithm>
#include <utility>
#include <vector>

#include "edges.h"
#include "guarded.h"

// A graph as cdec_edges has it, with labels.
struct cdec_graph {
  std::vector<int64_t> offsets{0};
  std::vector<uint8_t> lows, highs;
  std::vector<int32_t> targets, labels;

  void edge(int low, int high, int64_t target) {
    lows.push_back(static_cast<uint8_t>(low));
    highs.push_back(static_cast<uint8_t>(high));
    targets.push_back(static_cast<int32_t>(target));
  }
  void state(int32_t label) {
    labels.push_back(label);
    offsets.push_back(static_cast<int64_t>(targets.size()));
  }
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  cdec_edges edges() const {
    const auto count = static_cast<int64_t>(targets.size());
    return {{offsets.data(), size() + 1}, {lows.data(), count}, {highs.data(), count},
            {targets.data(), count}};
  }
};

namespace {

constexpr int32_t kNone = -1;

struct Node {
  uint8_t letter = 0;
  int32_t beside = kNone;  // the state of the automaton
  int32_t word = kNone;    // the one that ends here
  int32_t child = kNone, sibling = kNone;
};

class Trie {
 public:
  Trie(cdec_u8 texts, cdec_i64 begins, const cdec_edges &edges, bool has_others) : edges_(edges) {
    nodes_.push_back({.beside = has_others ? 0 : kNone});
    std::vector<int32_t> path{0};
    for (int32_t word = 0; word + 1 < begins.size; ++word) {
      const uint8_t *text = texts.at + begins[word];
      const int64_t length = begins[word + 1] - begins[word];
      size_t same = 1;
      while (same < path.size() && static_cast<int64_t>(same) <= length &&
             nodes_[path[same]].letter == text[same - 1])
        ++same;
      int32_t before = same < path.size() ? path[same] : kNone;
      path.resize(same);
      for (int64_t i = static_cast<int64_t>(same) - 1; i < length; ++i, before = kNone)
        path.push_back(plant(path.back(), before, text[i]));
      nodes_[path.back()].word = word;
    }
  }

  // Lays out the nodes, and the automaton behind them.
  cdec_graph laid(cdec_i32 word_labels, cdec_i32 labels) const {
    cdec_graph graph;
    for (const Node &node : nodes_) {
      lay_node(node, graph);
      const int32_t other = node.beside == kNone ? kNone : labels[node.beside];
      graph.state(node.word == kNone ? other : word_labels[node.word]);
    }
    for (int64_t state = 0; state < labels.size; ++state) {
      lay_between(static_cast<int32_t>(state), 0, 256, graph);
      graph.state(labels[state]);
    }
    return graph;
  }

 private:
  // Adds the node behind `parent`, whose last child is `before`.
  int32_t plant(int32_t parent, int32_t before, uint8_t letter) {
    const auto number = static_cast<int32_t>(nodes_.size());
    (before == kNone ? nodes_[parent].child : nodes_[before].sibling) = number;
    nodes_.push_back({.letter = letter, .beside = after(nodes_[parent].beside, letter)});
    return number;
  }

  int32_t after(int32_t state, uint8_t byte) const {
    if (state == kNone) return kNone;
    for (int64_t at = edges_.offsets[state]; at < edges_.offsets[state + 1]; ++at)
      if (edges_.lows[at] <= byte && byte <= edges_.highs[at]) return edges_.targets[at];
    return kNone;
  }

  // Edges to the nodes below, and between them where the automaton goes.
  void lay_node(const Node &node, cdec_graph &graph) const {
    int byte = 0;
    for (int32_t child = node.child; child != kNone; child = nodes_[child].sibling) {
      const int letter = nodes_[child].letter;
      lay_between(node.beside, byte, letter, graph);
      graph.edge(letter, letter, child);
      byte = letter + 1;
    }
    lay_between(node.beside, byte, 256, graph);
  }

  void lay_between(int32_t state, int first, int end, cdec_graph &graph) const {
    if (state == kNone) return;
    for (int64_t at = edges_.offsets[state]; at < edges_.offsets[state + 1]; ++at) {
      const int low = std::max<int>(edges_.lows[at], first);
      const int high = std::min<int>(edges_.highs[at], end - 1);
      if (low <= high)
        graph.edge(low, high, static_cast<int64_t>(nodes_.size()) + edges_.targets[at]);
    }
  }

  const cdec_edges &edges_;
  std::vector<Node> nodes_; // in preorder
};

// The states on the way of a text, and the first one, in their order.
std::vector<uint8_t> useful(const cdec_graph &graph) {
  const cdec_edges edges = graph.edges();
  std::vector<uint8_t> is_alive(graph.size()), is_kept(graph.size());
  for (int64_t state = 0; state < graph.size(); ++state) is_alive[state] = graph.labels[state] >= 0;
  cdec::settle(graph.size(), [&](int64_t state) {
    const auto lives = [&](int32_t target) { return is_alive[target] != 0; };
    if (is_alive[state] || std::ranges::none_of(cdec::targets(edges, state), lives)) return false;
    is_alive[state] = 1;
    return true;
  });
  std::vector<int32_t> stack{0};
  is_kept[0] = 1;
  while (!stack.empty()) {
    const int32_t state = stack.back();
    stack.pop_back();
    for (const int32_t target : cdec::targets(edges, state))
      if (is_alive[target] && !std::exchange(is_kept[target], 1)) stack.push_back(target);
  }
  return is_kept;
}

cdec_graph trimmed(const cdec_graph &graph) {
  const std::vector<uint8_t> is_kept = useful(graph);
  std::vector<int64_t> number(graph.size());
  for (int64_t state = 1; state < graph.size(); ++state)
    number[state] = number[state - 1] + is_kept[state - 1];
  cdec_graph found;
  for (int64_t state = 0; state < graph.size(); ++state) {
    if (!is_kept[state]) continue;
    for (int64_t at = graph.offsets[state]; at < graph.offsets[state + 1]; ++at)
      if (is_kept[graph.targets[at]])
        found.edge(graph.lows[at], graph.highs[at], number[graph.targets[at]]);
    found.state(graph.labels[state]);
  }
  return found;
}

}  // namespace

extern "C" {

cdec_graph *cdec_words_beside(cdec_u8 texts, cdec_i64 begins, cdec_i32 word_labels,
                              const cdec_edges *edges, cdec_i32 labels) {
  cdec_graph *found = nullptr;
  cdec::guarded([&]() -> int64_t {
    const Trie trie(texts, begins, *edges, labels.size > 0);
    found = new cdec_graph(trimmed(trie.laid(word_labels, labels)));
    return 0;
  });
  return found;
}

int64_t cdec_graph_sizes(cdec_graph *graph, cdec_i64_out sizes) {
  if (sizes.size >= 2) sizes[0] = graph->size(), sizes[1] = static_cast<int64_t>(graph->lows.size());
  return 0;
}

int64_t cdec_graph_read(cdec_graph *graph, cdec_i64_out offsets, cdec_u8_out lows,
                        cdec_u8_out highs, cdec_i32_out targets, cdec_i32_out labels) {
  const auto copy = [](const auto &from, auto to) {
    std::copy_n(from.begin(), std::min<int64_t>(from.size(), to.size), to.at);
  };
  copy(graph->offsets, offsets);
  copy(graph->lows, lows);
  copy(graph->highs, highs);
  copy(graph->targets, targets);
  copy(graph->labels, labels);
  return 0;
}

void cdec_graph_free(cdec_graph *graph) { delete graph; }

}  // extern "C"

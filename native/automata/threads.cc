// Subset construction over the ordered threads of a regular expression.
#include "cdec_native.h"
#include "construction.h"
#include "guarded.h"

namespace {

constexpr int32_t kMatch = 0;

class Threads : public cdec::Subsets {
 public:
  Threads(const cdec_threads &program, cdec::List first)
      : Subsets(program.atoms), program_(program), readers_(program.atoms),
        stamps_(program.reads.size) {
    lists.intern(first);
  }

 private:
  void follow(cdec::List state) override {
    const cdec_i64 begins = program_.charset_offsets;
    for (const int32_t node : state) {
      if (node == kMatch) continue;
      const int32_t charset = program_.reads[node];
      for (int64_t at = begins[charset]; at < begins[charset + 1]; ++at)
        readers_[program_.charset_atoms[at]].push_back(node);
    }
    for (int64_t atom = 0; atom < width; ++atom) {
      if (readers_[atom].empty()) continue;
      after(readers_[atom]);
      lead(atom, threads_);
      readers_[atom].clear();
    }
  }

  // Lists the threads after some that have read, each where it comes first.
  void after(cdec::List nodes) {
    threads_.clear();
    ++stamp_;
    for (const int32_t node : nodes) {
      const int64_t list = program_.follow_of[node];
      if (list < 0) continue;
      for (int64_t at = program_.follow_offsets[list]; at < program_.follow_offsets[list + 1]; ++at) {
        const int32_t target = program_.follow_nodes[at];
        if (std::exchange(stamps_[target], stamp_) == stamp_) continue;
        threads_.push_back(target);
        if (program_.prioritised && target == kMatch) return;
      }
    }
    if (!program_.prioritised) std::ranges::sort(threads_);
  }

  const cdec_threads &program_;
  std::vector<std::vector<int32_t>> readers_; // by atom, in order
  std::vector<int32_t> threads_;
  std::vector<int64_t> stamps_;
  int64_t stamp_ = 0;
};

}  // namespace

extern "C" cdec_construction *cdec_determinise_threads(const cdec_threads *program, cdec_i32 first) {
  return cdec::made<Threads>(*program, cdec::List(first.at, first.size));
}

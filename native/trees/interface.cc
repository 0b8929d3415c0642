// The forest and its workers as the interface has them.
#include "guarded.h"
#include "worker.h"

struct cdec_forest : cdec::trees::Forest {
  using Forest::Forest;
};

struct cdec_tree_worker : cdec::trees::Worker {
  using Worker::Worker;
};

extern "C" {

cdec_forest *cdec_new_forest(const cdec_tree_scanner *scanner, const cdec_tree_trie *trie,
                             cdec_i32 roots, cdec_bool asks_taken, int64_t words,
                             int64_t dense_from) {
  return cdec::made<cdec_forest>(*scanner, *trie, roots, asks_taken, words, dense_from);
}

void cdec_forest_free(cdec_forest *forest) { delete forest; }

cdec_tree_worker *cdec_new_tree_worker(cdec_forest *forest) {
  return cdec::made<cdec_tree_worker>(*forest);
}

void cdec_tree_worker_free(cdec_tree_worker *worker) { delete worker; }

int64_t cdec_build_trees(cdec_tree_worker *worker, int64_t steps) {
  return cdec::guarded([&] { return worker->build(steps); });
}

int64_t cdec_forest_finish(cdec_forest *forest, cdec_i64_out sizes) {
  return cdec::guarded([&] {
    forest->finish(sizes);
    return 0;
  });
}

int64_t cdec_forest_write(cdec_forest *forest, const cdec_tree_columns *columns) {
  forest->write(*columns);
  return 0;
}

}  // extern "C"

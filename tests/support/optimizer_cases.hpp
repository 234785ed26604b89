// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_OPTIMIZER_CASES_HPP
#define CAUSEWAY_TESTS_SUPPORT_OPTIMIZER_CASES_HPP

// The problem that tests/golden/optimizers.py solves with PyTorch, and an archive in memory.

#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace test {

/// Numbers in [-1, 1), the same as the script's.
inline float draw(std::int64_t i) {
  const auto hash = static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) * 2654435761U);
  return static_cast<float>(hash >> 8U) * 0x1p-23F - 1.0F;
}

/// Two matrices, a table and a vector; none fills its last 64 bytes.
inline causeway::parameter_store golden_parameters() {
  using causeway::parameter_kind;
  causeway::parameter_store store;
  store.add("wide", parameter_kind::matrix, 6, 10);
  store.add("tall", parameter_kind::matrix, 9, 4);
  store.add("table", parameter_kind::embedding, 5, 3);
  store.add("gain", parameter_kind::vector, 1, 7);
  store.allocate();
  return store;
}

/// Writes draw(start), draw(start + 1), ... over the pieces, padding left out.
inline void fill(const causeway::parameter_store& store, std::span<float> flat, std::int64_t start) {
  for (const auto& s : store.segments()) {
    for (std::int64_t i = 0; i < s.size(); ++i) flat[static_cast<std::size_t>(s.offset + i)] = draw(start++);
  }
}

/// Steps `first` to `last` - 1 of the script's ten.
template <causeway::optim::Optimizer O>
void golden_steps(O& optimizer, causeway::thread_pool& pool, causeway::parameter_store& store, int first, int last) {
  for (int step = first; step < last; ++step) {
    fill(store, store.gradients(), 1000 * (step + 1));
    optimizer.step(pool, store.view(), {0.01F * static_cast<float>(1 + step), 0.5F});
  }
}

/// The parameters after all ten steps.
template <causeway::optim::Optimizer O>
causeway::parameter_store golden_run(O optimizer, unsigned threads) {
  causeway::thread_pool pool{threads};
  auto store = golden_parameters();
  fill(store, store.values(), 1);
  optimizer.reset(store.length());
  golden_steps(optimizer, pool, store, 0, 10);
  return store;
}

/// The largest |difference| / (1 + |expected|) from the script's numbers; infinite if padding was written to.
inline double golden_error(const causeway::parameter_store& store, std::span<const float> expected) {
  double worst = 0.0;
  std::size_t at = 0;
  std::int64_t end = 0;
  for (const auto& s : store.segments()) {
    for (; end < s.offset; ++end) {
      if (store.values()[static_cast<std::size_t>(end)] != 0.0F) return INFINITY;
    }
    for (; end < s.offset + s.size(); ++end, ++at) {
      const auto wanted = static_cast<double>(expected[at]);
      const double error = std::abs(static_cast<double>(store.values()[static_cast<std::size_t>(end)]) - wanted);
      if (!(error < INFINITY)) return INFINITY;
      worst = std::max(worst, error / (1.0 + std::abs(wanted)));
    }
  }
  for (; end < store.length(); ++end) {
    if (store.values()[static_cast<std::size_t>(end)] != 0.0F) return INFINITY;
  }
  return at == expected.size() ? worst : INFINITY;
}

/// Bytes in memory: `ar(a, b)` appends them, or reads them back in the same order once `reading`.
struct memory_archive {
  std::vector<unsigned char> bytes;
  std::size_t at = 0;
  bool reading = false;

  template <class... Ts>
  void operator()(Ts&... values) {
    (visit(values), ...);
  }

 private:
  template <class T>
    requires std::is_arithmetic_v<T>
  void visit(T& value) { raw(&value, sizeof value); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void visit(std::vector<T>& values) {
    std::uint64_t size = values.size();
    visit(size);
    values.resize(static_cast<std::size_t>(size));
    raw(values.data(), values.size() * sizeof(T));
  }
  template <class T>
    requires requires(T& t, memory_archive& a) { t.serialize(a); }
  void visit(T& value) { value.serialize(*this); }
  void raw(void* p, std::size_t size) {
    if (reading) {
      std::memcpy(p, bytes.data() + at, size);
      at += size;
    } else {
      const auto* first = static_cast<const unsigned char*>(p);
      bytes.insert(bytes.end(), first, first + size);
    }
  }
};

/// Ten steps, with the optimizer saved after four and a new one going on from its bytes: must equal ten in one go.
template <causeway::optim::Optimizer O>
bool survives_a_checkpoint(const auto& options) {
  const auto whole = golden_run(O{options}, 1);
  causeway::thread_pool pool;
  auto store = golden_parameters();
  fill(store, store.values(), 1);
  O before{options};
  before.reset(store.length());
  golden_steps(before, pool, store, 0, 4);
  memory_archive archive;
  archive(before);
  archive.reading = true;
  O after{options};
  after.reset(store.length());
  archive(after);
  if (archive.at != archive.bytes.size()) return false;
  golden_steps(after, pool, store, 4, 10);
  const auto expected = whole.values();
  return std::equal(expected.begin(), expected.end(), store.values().begin());
}

/// An optimizer that was reset makes the same ten steps once more, and leaves the gradients alone.
template <causeway::optim::Optimizer O>
bool reset_forgets() {
  causeway::thread_pool pool;
  auto store = golden_parameters();
  O optimizer;
  std::vector<std::vector<float>> after;
  for (int run = 0; run < 2; ++run) {
    optimizer.reset(store.length());
    if (optimizer.steps() != 0) return false;
    fill(store, store.values(), 1);
    golden_steps(optimizer, pool, store, 0, 10);
    if (optimizer.steps() != 10) return false;
    after.emplace_back(store.values().begin(), store.values().end());
  }
  auto last = golden_parameters();
  fill(last, last.gradients(), 10000);
  return after[0] == after[1] && std::equal(last.gradients().begin(), last.gradients().end(), store.gradients().begin());
}

/// Three steps of parameters that are many pieces of work, on one thread and on more.
template <causeway::optim::Optimizer O>
bool same_bits_for_any_threads() {
  const auto run = [](unsigned threads) {
    causeway::thread_pool pool{threads};
    causeway::parameter_store store;
    store.add("w", causeway::parameter_kind::matrix, 200, 301);
    store.add("gain", causeway::parameter_kind::vector, 1, 301);
    store.allocate();
    fill(store, store.values(), 1);
    O optimizer;
    optimizer.reset(store.length());
    golden_steps(optimizer, pool, store, 0, 3);
    return std::vector<float>(store.values().begin(), store.values().end());
  };
  const auto one = run(1);
  return run(2) == one && run(3) == one;
}

}  // namespace test

#endif  // CAUSEWAY_TESTS_SUPPORT_OPTIMIZER_CASES_HPP

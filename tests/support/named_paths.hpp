// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_NAMED_PATHS_HPP
#define CAUSEWAY_TESTS_SUPPORT_NAMED_PATHS_HPP

// The parameters of all paths through a model of modules, by names.

#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace support {
namespace detail {

inline void collect(causeway::parameter_store& store, std::map<std::string, std::vector<float>>& out) {
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    out[s.name].assign(store.value(i), store.value(i) + s.size());
  }
}

}  // namespace detail

/// The square of the distance between two of the same size.
inline double squares_apart(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = double{a[i]} - double{b[i]};
    sum += apart * apart;
  }
  return sum;
}

/// Of the first path: that of a model that has no others.
inline std::string name_on_path(const std::string& name, std::uint32_t path) {
  return path == 0 ? name : name + " of path " + std::to_string(path);
}

/// What this trainer holds of all paths, if it trains any. Its live parameters are those of its own: a run is over.
template <class Trainer>
void collect_paths(Trainer& trainer, std::map<std::string, std::vector<float>>& out) {
  [[maybe_unused]] auto& comm = trainer.comm();
  auto& store = trainer.model().parameters();
  if constexpr (!Trainer::comm_type::traits.trains_paths) {
    detail::collect(store, out);
  } else {
    const auto live = store.values();
    const std::vector<float> own{live.begin(), live.end()};
    for (std::uint32_t path = 0; path < comm.paths(); ++path) {
      comm.parameters_of(path, live);
      if (path == comm.path()) CHECK(std::equal(own.begin(), own.end(), live.begin()));
      std::map<std::string, std::vector<float>> of_path;
      detail::collect(store, of_path);
      for (auto& [name, values] : of_path) out[name_on_path(name, path)] = std::move(values);
    }
    std::copy(own.begin(), own.end(), live.begin());
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_NAMED_PATHS_HPP

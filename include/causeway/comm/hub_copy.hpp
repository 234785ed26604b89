// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_COPY_HPP
#define CAUSEWAY_COMM_HUB_COPY_HPP

// What a hub's heir needs to go on in its place, as all peers hold it alike after a record: the shared parameters and the
// outer optimizers' state.

#include <causeway/axis/fragments.hpp>
#include <causeway/comm/outer_rows.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// to ← from, which has as many parts of the same sizes.
CAUSEWAY_DECL void copy_parts(std::span<const std::span<std::byte>> from, std::span<const std::span<std::byte>> to);

/// Parts of the same sizes as others, with memory of their own.
struct part_room {
  std::vector<std::vector<std::byte>> memory;

  CAUSEWAY_DECL std::vector<std::span<std::byte>> like(std::span<const std::span<std::byte>> parts);
};

template <class Outer>
struct hub_copy {
  std::vector<float> shared;
  std::vector<Outer> outers;  ///< one for each fragment

  void found(std::span<const axis::fragment> cuts, std::span<const float> parameters, const Outer& prototype) {
    shared.assign(parameters.begin(), parameters.end());
    outers.clear();
    for (const axis::fragment& cut : cuts) {
      outers.push_back(prototype);
      outers.back().reset(static_cast<std::int64_t>(cut.size));
    }
  }

  /// As parameter_server::state has it.
  [[nodiscard]] std::vector<std::span<std::byte>> state() {
    membership::image_collector all;
    all(shared, outers);
    return all.parts();
  }

  /// What has a value for each parameter, the shared ones first.
  [[nodiscard]] std::vector<parameter_row> rows(std::span<const axis::fragment> cuts) {
    std::vector<parameter_row> all;
    all.push_back({{shared}});
    for (const std::size_t part : rows_of(outers.front())) {
      row_of_fragments row;
      for (std::size_t f = 0; f < cuts.size(); ++f) {
        row.add(cuts[f], reinterpret_cast<float*>(parts_of(outers[f])[part].data()));
      }
      all.push_back(row.take());
    }
    return all;
  }
  /// The model has another part than `before`, cut like this: what there was stays, the rest begins at `parameters`.
  void divide(std::span<const axis::fragment> was, std::span<const axis::fragment> cuts, std::span<const float> parameters,
              std::span<const parameter_segment> before, std::span<const parameter_segment> now) {
    kept_rows old;
    old.keep(rows(was));
    shared.assign(parameters.begin(), parameters.end());
    for (std::size_t f = 0; f < cuts.size(); ++f) reset_rows(outers[f], cuts[f].size);
    old.put_common(rows(cuts), before, now);
  }

  /// What is no row in `parts`, which are as `state` gives them, goes to the end of `counts`.
  void add_counts(std::span<const std::span<std::byte>> parts, std::vector<std::span<std::byte>>& counts) {
    const auto rows = rows_of(outers.front());
    const std::size_t each = parts_of(outers.front()).size();
    for (std::size_t p = 1; p < parts.size(); ++p) {
      if (std::find(rows.begin(), rows.end(), (p - 1) % each) == rows.end()) counts.push_back(parts[p]);
    }
  }

  void serialize(auto& ar) {
    ar(shared);
    for (Outer& o : outers) ar(o);
  }
  /// Of a checkpoint, with so many fragments.
  void keep(auto& ar, std::uint64_t fragments, const Outer& prototype) {
    for (std::uint64_t f = 0; f < fragments; ++f) {  // one by one: a count without bytes behind it takes no memory
      if (f == outers.size()) outers.push_back(prototype);
      ar(outers[f]);
    }
    ar(shared);
  }
};

/// The same of all hubs: of each region, by number, and of the hub of hubs, if there is one (Top; else any type). `outers`:
/// a tuple of these, as they begin.
template <class Outer, class Top>
struct hub_copies {
  std::vector<hub_copy<Outer>> regions;
  std::vector<hub_copy<Top>> top;  ///< one or none

  /// What training comes to.
  [[nodiscard]] const std::vector<float>& trained() const {
    return top.empty() ? regions.front().shared : top.front().shared;
  }
  /// What a peer of that region pulls; of one that does not know its region, what training comes to.
  [[nodiscard]] const std::vector<float>& of_region(std::size_t region) const {
    return region < regions.size() ? regions[region].shared : trained();
  }

  template <class Outers>
  void found(std::span<const axis::fragment> cuts, std::span<const float> parameters, std::size_t count,
             const Outers& outers) {
    resize<Outers>(count);
    for (auto& c : regions) c.found(cuts, parameters, std::get<0>(outers));
    for (auto& c : top) c.found(cuts, parameters, std::get<std::tuple_size_v<Outers> - 1>(outers));
  }

  /// Into `parts`, which are as its state: a region that nobody is in begins as `shared`.
  void begin_anew(std::size_t region, std::span<const axis::fragment> cuts, std::span<const float> shared,
                  std::span<const std::span<std::byte>> parts) const {
    hub_copy<Outer> fresh;
    fresh.found(cuts, shared, regions[region].outers.front());
    copy_parts(fresh.state(), parts);
  }

  /// Calls `f` with each, that of the hub of hubs first.
  void visit(auto&& f) {
    for (auto& c : top) f(c);
    for (auto& c : regions) f(c);
  }

  /// What has a value for each parameter; what training comes to first.
  [[nodiscard]] std::vector<parameter_row> rows(std::span<const axis::fragment> cuts) {
    std::vector<parameter_row> all;
    visit([&](auto& c) {
      for (parameter_row& row : c.rows(cuts)) all.push_back(std::move(row));
    });
    return all;
  }

  /// What is no row in the states of all, in that order.
  [[nodiscard]] std::vector<std::span<std::byte>> counts_in(const std::vector<std::vector<std::span<std::byte>>>& states) {
    std::vector<std::span<std::byte>> counts;
    auto next = states.begin();
    visit([&](auto& c) { c.add_counts(*next++, counts); });
    return counts;
  }

  void serialize(auto& ar) {
    visit([&](auto& c) { ar(c); });
  }
  /// Of a checkpoint, with so many fragments. Nothing was founded where it is loaded.
  template <class Outers>
  void keep(auto& ar, std::uint64_t fragments, std::size_t count, const Outers& outers) {
    resize<Outers>(count);
    for (auto& c : top) c.keep(ar, fragments, std::get<std::tuple_size_v<Outers> - 1>(outers));
    for (auto& c : regions) c.keep(ar, fragments, std::get<0>(outers));
  }

 private:
  template <class Outers>
  void resize(std::size_t count) {
    regions.resize(count);
    top.resize(std::tuple_size_v<Outers> > 1 ? 1 : 0);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_copy.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_COPY_HPP

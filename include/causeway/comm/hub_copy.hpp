// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_COPY_HPP
#define CAUSEWAY_COMM_HUB_COPY_HPP

// What a hub's heir needs to go on in its place, as all peers hold it alike after a record: the shared parameters and the
// outer optimizers' state.

#include <causeway/axis/fragments.hpp>
#include <causeway/comm/outer_rows.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
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

  void serialize(auto& ar) {
    ar(shared);
    for (Outer& o : outers) ar(o);
  }
};

/// The same of all hubs: of each region, by number, and of the hub of hubs, if there is one (Top; else any type).
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

  /// A region that nobody is in begins where the others are. In place: peers share this memory.
  void begin_anew(std::size_t region, std::span<const axis::fragment> cuts, const Outer& prototype) {
    hub_copy<Outer> fresh;
    fresh.found(cuts, trained(), prototype);
    copy_parts(fresh.state(), regions[region].state());
  }

  void serialize(auto& ar) {
    for (auto& c : top) ar(c);
    for (auto& c : regions) ar(c);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_copy.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_COPY_HPP

// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_COPY_HPP
#define CAUSEWAY_COMM_HUB_COPY_HPP

// What a hub's heir needs to go on in its place, as all peers hold it alike after a record: the shared parameters and the
// outer optimizers' state.

#include <causeway/axis/fragments.hpp>
#include <causeway/membership/state_image.hpp>

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
  std::uint64_t steps = 0;    ///< inner steps at which a newcomer begins: common_steps

  void found(std::span<const axis::fragment> cuts, std::span<const float> parameters, const Outer& prototype) {
    shared.assign(parameters.begin(), parameters.end());
    outers.clear();
    for (const axis::fragment& cut : cuts) {
      outers.push_back(prototype);
      outers.back().reset(static_cast<std::int64_t>(cut.size));
    }
  }

  /// Without `steps`, as parameter_server::state has it.
  [[nodiscard]] std::vector<std::span<std::byte>> state() {
    membership::image_collector all;
    all(shared, outers);
    return all.parts();
  }

  void serialize(auto& ar) {
    ar(shared);
    for (Outer& o : outers) ar(o);
    ar(steps);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_copy.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_COPY_HPP

// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_BLOCK_CHOICE_HPP
#define CAUSEWAY_STAGE_BLOCK_CHOICE_HPP

// Which blocks a server holds (Petals: Borzunov et al., 2022, section 3.2 and its code). A swarm is as quick as its slowest
// block, whose throughput is the sum over those who hold it. Who comes takes the place where that is least; who is there
// moves only if the least throughput rises by more than a margin, after all others have moved in answer as well. Functions
// of what servers announce alone: who knows the same decides the same.

#include <causeway/config/config.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/nn/model_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// A server that holds blocks, and how many rows a second it takes through them.
struct served_span {
  net::peer_id id = 0;
  nn::block_range blocks{};
  double throughput = 0;
};

/// Rows a second through each block.
CAUSEWAY_DECL [[nodiscard]] std::vector<double> block_throughputs(std::span<const served_span> spans, std::int64_t layers);

/// Where `count` blocks in a row are worst off: their throughputs, lowest first, are the least in lexicographic order; the
/// first such place. Precondition: 1 <= count <= blocks.
CAUSEWAY_DECL [[nodiscard]] std::int64_t worst_served(std::span<const double> throughputs, std::int64_t count);

/// Where the server `self` of `spans` should begin instead; none where it stays: its place is the best, or the swarm would
/// have a gap meanwhile, or the least throughput would not become more than 1 / quality of what it is, when all move until
/// nobody wants to. Petals' quality is 0.75. Rounds in which all may move are at most as many as there are spans.
CAUSEWAY_DECL [[nodiscard]] std::optional<std::int64_t> better_place(std::vector<served_span> spans, net::peer_id self,
                                                                     std::int64_t layers, double quality = 0.75);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/block_choice.ipp>
#endif

#endif  // CAUSEWAY_STAGE_BLOCK_CHOICE_HPP

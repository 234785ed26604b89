// SPDX-License-Identifier: Apache-2.0
// Settings of processes that hold parts of a model for the peers: experts that learn there, or the blocks of a frozen
// model.

#include <causeway/net/endpoint.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/parallel/experts/expert_messages.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "option.hpp"
#include "settings.hpp"

namespace app {

using causeway::errc;
using causeway::fail;

std::vector<setting> server_table(settings& s) {
  constexpr bool local = true;
  return {
      make_setting("servers.at", s.servers.at,
                   "experts, served: HOST:PORT of the servers, with commas; empty = servers on this machine")
          .also("servers"),
      make_setting("servers.here", s.servers.here, "experts, served: how many servers to start on this machine", local)
          .in("processes")
          .at_least(1)
          .up_to(256),
      make_setting("servers.part", s.servers.part, "serve: which part of the experts, or of the blocks, from 0 on", local),
      make_setting("servers.parts", s.servers.parts, "serve: into how many parts they are divided; 1 = it serves all",
                   local)
          .at_least(1)
          .up_to(65536),
      make_setting("servers.blocks", s.servers.blocks,
                   "serve: so many blocks in a row, those that are served worst, in place of a part; 0 = the part", local)
          .in("blocks")
          .at_least(0),
      make_setting("experts.sides", s.experts.sides, "experts: sides of the grid of a block's experts; 4,4 are 16 experts")
          .in("experts"),
      make_setting("experts.chosen", s.experts.chosen, "experts: how many compute each token").in("experts").at_least(1),
      make_setting("experts.learning_rate", s.experts.learning_rate,
                   "experts: of AdamW, by which they move at their servers")
          .above(0),
      make_setting("tune.prompts", s.tune.prompts,
                   "served: trained rows in front of every sequence; they take places of the model's context")
          .in("rows")
          .at_least(0),
      make_setting("tune.deep", s.tune.deep, "served: prompts before every block, too (true|false)"),
      make_setting("tune.rank", s.tune.rank, "served: of the low-rank adapters beside linear maps; 0 = none").at_least(0),
      make_setting("tune.alpha", s.tune.alpha, "served: an adapter adds alpha / rank times its product").above(0),
      make_setting("tune.maps", s.tune.maps,
                   "served: which maps have an adapter: query, key, value, output, feed_forward, with commas"),
  };
}

namespace {

causeway::error bad(const char* name, const std::string& why) { return fail(errc::invalid_argument, name, why); }

causeway::result<void> validate_experts(const settings& s) {
  const auto& sides = s.experts.sides;
  std::uint64_t places = sides.empty() ? 0 : 1;
  for (const std::uint32_t side : sides) places = std::min<std::uint64_t>(places * side, 1U << 30U);
  if (places == 0) return bad("experts.sides", "say how many experts each side of the grid has, as 4,4");
  const auto all = places * static_cast<std::uint64_t>(s.model.layers);
  if (const auto most = causeway::parallel::expert_wire::most_experts; all > most) {
    return bad("experts.sides",
               "are " + std::to_string(all) + " experts in all blocks; use " + std::to_string(most) + " or fewer");
  }
  if (s.experts.chosen > places) {
    return bad("experts.chosen", "use up to as many as a block has (" + std::to_string(places) + ")");
  }
  if (s.model.family != "gpt" || s.model.tie == "false") {
    return bad("model.family", "experts are for gpt, whose output layer is its token table");
  }
  if (!s.model.start.empty()) return bad("model.init", "is a model without experts; leave it out");
  return {};
}

causeway::result<void> validate_tuning(const settings& s) {
  if (s.model.start.empty()) {
    return bad(
        "model.init",
        "what is tuned is a model that is there: give its folder with --init DIR. Of a run of this program, `causeway "
        "export DIR --name NAME` makes one");
  }
  if (s.tune.prompts == 0 && s.tune.rank == 0) return bad("tune.rank", "nothing is tuned: use --tune.rank 8, or prompts");
  for (const std::string& map : s.tune.maps) {
    if (map == "feed_forward" || map == "query" || map == "key" || map == "value" || map == "output") continue;
    return bad("tune.maps", "'" + map + "' is none of query, key, value, output, feed_forward");
  }
  if (s.servers.at.empty() && s.servers.here > s.model.layers) {
    return bad("servers.here", "the model has " + std::to_string(s.model.layers) + " blocks; use that or fewer");
  }
  return {};
}

}  // namespace

causeway::result<void> validate_servers(const settings& s) {
  for (const std::string& address : s.servers.at) {
    if (const auto at = causeway::net::parse_endpoint(address); !at) return bad("servers.at", at.error().message);
  }
  if (s.servers.part >= s.servers.parts) {
    return bad("servers.part", "use 0 to " + std::to_string(s.servers.parts - 1) + ", or more servers.parts");
  }
  if (s.fault.policy == "quorum") {
    return fail(errc::unsupported, "fault.policy",
                "peers whose servers hold parts of the model stay the same; use fail_stop or restart");
  }
  if (!s.net.static_peers.empty() && s.servers.at.empty()) {
    return bad("servers.at", "peers of a list start no servers; start them with causeway serve, and say where they are");
  }
  if (s.model.precision != "f32" || s.model.dropout > 0) {
    return bad("model.precision", "servers compute in f32, without dropout; leave precision and dropout out");
  }
  return has_experts(s) ? validate_experts(s) : validate_tuning(s);
}

}  // namespace app

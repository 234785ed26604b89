// SPDX-License-Identifier: Apache-2.0
// Tables and figures that papers got from simulators and models, computed again, with the published figure beside ours.
//
// usage: bench_tables_tables [--peers N] [WORLD.csv]
//
// WORLD.csv is a table of links between regions (bench/sim/networks/world.csv, which is the default). N bounds the
// simulated trees of S6 (256). Prints the same on every machine with the same arithmetic. "Derived" marks what no paper
// says. docs/benchmarks-tables.md has the results. Exit status 1 when something that was reproduced no longer is.

#include <causeway/sim/link_table.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "bandwidth.hpp"
#include "cocktail.hpp"
#include "crosspipe.hpp"
#include "gaia.hpp"
#include "goodput.hpp"
#include "halos.hpp"
#include "noloco.hpp"
#include "noloco_simulated.hpp"
#include "report.hpp"
#include "rounds.hpp"

namespace {

causeway::result<causeway::sim::link_table> read_table(const std::string& path) {
  std::ifstream file{path};
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return causeway::fail(causeway::errc::not_found, path, "cannot be read; give the path of world.csv");
  return causeway::sim::link_table::parse(text.str(), path);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path = "bench/sim/networks/world.csv";
  std::uint32_t most_peers = 256;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--peers" && i + 1 < argc) {
      most_peers = static_cast<std::uint32_t>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      path = argv[i];
    }
  }
  const auto world = read_table(path);
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().text().c_str());
    return 2;
  }
  tables::report out;
  tables::bandwidth_tables(out);
  tables::intellect1(out, *world);
  tables::covenant(out);
  tables::decoupled_goodput(out);
  tables::noloco(out);
  tables::noloco_simulated(out, most_peers);
  tables::halos(out, *world);
  tables::crosspipe(out);
  tables::cocktail(out);
  tables::gaia(out, *world);
  return out.failed() ? 1 : 0;
}

// SPDX-License-Identifier: Apache-2.0
#ifdef CAUSEWAY_HAS_MPI
#include "site_choices.hpp"

#include <sstream>
#include <utility>
#include <vector>

#include "text_file.hpp"

namespace app {

using causeway::result;
using causeway::collective::mpi_site;
using causeway::collective::mpi_way;

namespace {

std::string to_text(const mpi_site& site, const std::string& made_for) {
  std::ostringstream text;
  text << made_for << '\n';
  for (const auto& c : site.choices()) {
    text << c.up_to << ' ' << to_string(c.way) << ' ' << (c.broadcasts_messages ? "messages" : "broadcast") << '\n';
  }
  return text.str();
}

/// None where the text was made for another site, or is no such text.
std::vector<mpi_site::choice> from_text(const std::string& text, const std::string& made_for) {
  std::istringstream lines{text};
  std::string first, way, broadcast;
  std::vector<mpi_site::choice> choices;
  if (!std::getline(lines, first) || first != made_for) return {};
  for (mpi_site::choice c; lines >> c.up_to >> way >> broadcast;) {
    for (const mpi_way w : causeway::collective::mpi_ways) {
      if (to_string(w) == way) c.way = w;
    }
    c.broadcasts_messages = broadcast == "messages";
    choices.push_back(c);
  }
  return choices;
}

}  // namespace

result<void> choose_ways(mpi_site& site, const causeway::net::mpi_world& group, const std::string& file,
                         std::size_t bytes) {
  const std::string made_for = std::to_string(group.size()) + " ranks, " + causeway::net::mpi_world::library() + ", " +
                               std::to_string(bytes) + " bytes";
  const std::string kept = group.rank() == 0 ? read_text(file).value_or("") : "";
  CAUSEWAY_ASSIGN(const std::string text, group.tell(0, kept));
  auto choices = from_text(text, made_for);
  if (!choices.empty()) {
    site.choose(std::move(choices));
    return {};
  }
  CAUSEWAY_TRY(site.measure(bytes));
  return group.rank() == 0 ? write_text(file, to_text(site, made_for)) : result<void>{};
}

}  // namespace app
#endif

"""Topologies and graphs of NCCL, and the matrix of nvidia-smi."""

import re

import pytest
from reader_samples import GRAPH, MATRIX, TOPOLOGY

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.parts import Request
from themis_opt.formats.readers.registry import import_files


def rows(imported):
    return [
        (d.name, d.kind.value, d.size, d.bandwidth / 1e9, d.latency // 1000)
        for d in imported.instance.network.dimensions
    ]


def pci(inside, speed="16.0 GT/s PCIe", width=16):
    pci.count += 1
    return f'<pci busid="0:{pci.count}" link_speed="{speed}" link_width="{width}">{inside}</pci>'


pci.count = 0


def gpu(dev, links=0, more=""):
    """A GPU with NVLinks to a switch."""
    return pci(f'<gpu dev="{dev}" sm="90"><nvlink target="f" count="{links}" tclass="0x068000"/>{more}</gpu>')


def nic(name, speed=200_000, width=16):
    return pci(f'<nic><net name="{name}" speed="{speed}"/></nic>', width=width)


def system(*cpus, hosts=1):
    return '<system version="1">' + "".join(
        f'<cpu host_hash="{number % hosts}" numaid="{number}" arch="x86_64" vendor="AuthenticAMD">{inside}</cpu>'
        for number, inside in enumerate(cpus)
    ) + "</system>"  # fmt: skip


def summed(*counts):
    """A GPU with links to several switches."""
    return "".join(f'<nvlink target="{k}" count="{count}" tclass="0x068000"/>' for k, count in enumerate(counts))


WITHOUT_SWITCH = TOPOLOGY.replace('"0x068000"', '"0x030200"')
for target in ("0000:10:00.0", "0000:0f:00.0"):
    WITHOUT_SWITCH = WITHOUT_SWITCH.replace('target="0000:c7:00.0"', f'target="{target}"', 1)
WITHOUT_NVLINKS = "\n".join(line for line in TOPOLOGY.splitlines() if "nvlink" not in line)
SUMS_OF_LINKS = system(gpu(0, 0, summed(5, 5, 4, 4)), gpu(1, 0, summed(4, 4, 5, 5)), gpu(2, 18))
WITHOUT_ADAPTERS = GRAPH.replace('<net dev="0"/>', "")
NODES = {
    "node and net": ("t__xml", TOPOLOGY, [("node", "switch", 2, 240, 3400), ("net", "switch", 2, 12.5, 14_000)]),
    "16 nodes": ("t__16nodes__xml", TOPOLOGY, [("node", "switch", 2, 240, 3400), ("net", "switch", 16, 12.5, 14_000)]),
    "links without a switch": ("t__1nodes__xml", WITHOUT_SWITCH, [("node", "fully_connected", 2, 240, 3400)]),
    "no links but PCI": ("t__1nodes__xml", WITHOUT_NVLINKS, [("node", "switch", 2, 24, 5700)]),
    "sums, rounded later": ("t__1nodes__xml", SUMS_OF_LINKS, [("node", "switch", 3, pytest.approx(370.8), 3400)]),
    "channels": ("g__4nodes__xml", GRAPH, [("node", "ring", 2, 40, 3400), ("net", "switch", 4, 12.5, 14_000)]),
    "no adapters": ("g__xml", WITHOUT_ADAPTERS, [("node", "ring", 2, 40, 3400)]),
    "matrix": ("t__txt", MATRIX, [("node", "switch", 3, 300, 3400)]),
    "matrix of PCI": ("t__txt", MATRIX.replace("NV12", "PIX"), [("node", "switch", 3, 32, 5700)]),
}


@pytest.mark.parametrize("case", NODES)
def test_files_become_dimensions(write, case):
    name, text, dimensions = NODES[case]
    assert rows(import_files(write(**{name: text}))) == dimensions


def test_a_name_that_says_no_number_of_nodes_is_told(write):
    notes = import_files(write(topology__xml=TOPOLOGY)).notes
    assert "2 nodes, since its name says no number such as 16nodes" in notes[0]


def all_gather_bound(files):
    from themis_opt import bounds

    problem = import_files(files, request=Request("all_gather", "1GB")).instance
    return max(bounds(problem).values()) / 1e9


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        (system(*(pci(gpu(2 * k) + gpu(2 * k + 1) + nic(f"n{k}")) for k in (0, 1))), 7 / 8 / 24),  # GPU of PCI
        (system(pci(gpu(0, 18) + nic("a", width=4)) + pci(gpu(1, 18) + nic("b", width=4))), 1 / 2 / 12),  # two x4
        (system(gpu(0, more='<c2c bw="50000" count="8"/>') + nic("a", 400_000)), 1 / 2 / 24),  # PCI of the adapter
        (system(pci(gpu(0, 18) + nic("a", 100_000)) + pci(gpu(1, 18) + nic("b", 200_000))), 1 / 2 / 36.5),  # no average
    ],
)
def test_two_nodes_are_as_fast_as_their_slowest_cut(write, text, milliseconds):
    both = all_gather_bound(write(box__2nodes__xml=text))
    assert both == pytest.approx(milliseconds * 1000, rel=3e-3)
    assert both == all_gather_bound(write(box0__xml=text, box1__xml=text))


def test_gpus_behind_two_cpus_are_as_fast_as_the_link_between_these(write):
    text = system(pci(gpu(0) + gpu(1)), pci(gpu(2) + gpu(3)))
    assert all_gather_bound(write(box__1nodes__xml=text)) == pytest.approx(500 / 16, rel=1e-3)


def test_hosts_of_one_file_share_their_nvlink_switch(write):
    text = system(gpu(0, 18) + nic("a"), gpu(0, 18) + nic("a"), hosts=2)
    assert rows(import_files(write(rack__xml=text))) == [("node", "switch", 2, pytest.approx(370.8), 3400)]
    assert [row[2] for row in rows(import_files(write(rack__6nodes__xml=text)))] == [2, 3]
    with pytest.raises(InputError, match="= 3: must be a multiple of the 2 hosts in the file"):
        import_files(write(rack__3nodes__xml=text))
    broken = text.replace('count="18"', 'count="0"', 1)
    assert import_files(write(rack__xml=broken)).instance.network.npus == ("box0.gpu0", "box1.gpu0")


@pytest.mark.parametrize(("speed", "rate"), [("64.0 GT/s PCIe", 96), ("Unknown", 12), ("", 12), ("5 GT/s", 6)])
def test_pci_has_the_rates_of_nccl(write, speed, rate):
    text = system(pci('<gpu dev="0" sm="80"/>', speed, 0) + pci('<gpu dev="1" sm="80"/>', speed, 0))
    assert rows(import_files(write(box__1nodes__xml=text)))[0][3] == rate


@pytest.mark.parametrize(
    ("sm", "rate"),
    [(60, 18), (70, 20), (75, 20), (80, 20), (86, 12), (87, 20), (89, 20), (90, 20.6), (100, 40.1), (129, 40.1)],
)
def test_nvlinks_have_the_rates_of_nccl(write, sm, rate):
    text = system(gpu(0, 1) + gpu(1, 1)).replace('sm="90"', f'sm="{sm}"')
    assert rows(import_files(write(box__1nodes__xml=text)))[0][3] == rate


def test_pci_of_a_speed_that_nccl_does_not_know_is_said(write):
    notes = [
        import_files(write(t__xml=TOPOLOGY.replace("16.0 GT", f"{speed} GT"))).notes[0] for speed in ("64.0", "128.0")
    ]
    assert ["does not know, 128.0 GT/s PCIe, is taken for 3.0" in note for note in notes] == [False, True]


@pytest.mark.parametrize(
    ("cpu", "rate"),
    [
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"', 6),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"', 10),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"', 22),
        ('arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207"', 40),
        ('arch="x86_64" vendor="GenuineIntel"', 10),
        ('arch="x86_64" vendor="AuthenticAMD"', 16),
        ('arch="x86_64" vendor="CentaurHauls"', 6),
        ('arch="ppc64" vendor="IBM"', 32),
        ('arch="arm64" vendor="ARM"', 6),
    ],
)
def test_cpus_have_the_rates_of_nccl_between_them(write, cpu, rate):
    fast = "64.0 GT/s PCIe"
    text = system(*(pci(gpu(2 * k) + gpu(2 * k + 1), fast) for k in (0, 1))).replace("16.0 GT/s PCIe", fast)
    text = text.replace('arch="x86_64" vendor="AuthenticAMD"', cpu)
    network = import_files(write(box__1nodes__xml=text)).instance.network
    assert min(link.bandwidth for link in network.links) == rate * 1e9


@pytest.mark.parametrize(("gcn", "gigabytes"), [("gfx942", 48), ("940", 48), ("gfx90a", 36), ("910", 36), ("906", 24)])
def test_links_of_rccl_are_read(write, gcn, gigabytes):
    links = TOPOLOGY.replace("nvlink", "xgmi").replace('sm="80"', f'sm="304" gcn="{gcn}"')
    counts = [int(count) for count in re.findall(r'xgmi [^>]*count="(\d+)"', links)]
    assert rows(import_files(write(t__xml=links)))[0][3] == gigabytes * counts[0]


BROKEN = [
    ("x__xml", TOPOLOGY.replace('sm="80"', 'sm="53"'), "gpu.sm = '53': must be 60 to 129"),
    ("x__xml", TOPOLOGY.replace('version="1"', 'version="9"'), "system.version = '9': must be 1 or 2"),
    (
        "x__xml",
        re.sub(r' speed="[0-9]+"', ' speed="200000000"', TOPOLOGY),
        "net.speed = 200000000: must be at most 10000000",
    ),
    ("x__2nodes__xml", TOPOLOGY.replace("<net ", "<nett "), "must describe a network adapter"),
    ("x__xml", "<!DOCTYPE system [<!ENTITY a 'b'>]>" + TOPOLOGY, "must not declare a document type or entities"),
    ("x__xml", TOPOLOGY[:-12], "not XML: unclosed token at line"),
    ("x__xml", "<system>" * 80, "must have at most 64 levels"),
    ("x__xml", GRAPH.replace('pattern="4"', 'pattern="1"'), "graph = 'balanced tree': must hold a ring, pattern 4"),
    ("x__txt", MATRIX.replace("NV12", "NV4", 1), "GPU0 and GPU1 = 'NV4, NV12': must be the same both ways"),
    ("x__txt", MATRIX.replace("NV12", "NVX", 1), "line 2 = 'NVX': must be NV and a number"),
    ("x__4nodes__xml", WITHOUT_ADAPTERS, "must list network adapters in channels"),
    ("x__txt", MATRIX.replace("GPU2\tNV12", "GPU7\tNV12"), "GPUs = 2: must be a matrix of two GPUs or more"),
]


@pytest.mark.parametrize(("name", "text", "rule"), BROKEN)
def test_files_that_break_a_rule_are_refused(write, name, text, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(**{name: text}))

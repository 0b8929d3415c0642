"""A made-up catalogue of products, as many as wanted, and questions of customers."""

from __future__ import annotations

import numpy as np

_BRANDS = (
    "Acme Apex Aurora Beacon Birch Bluebird Brightside Cascade Cedar Clearwater Comet Copper "
    "Crestline Delta Dune Eagle Eastgate Ember Evergreen Falcon Fernwood Finch Foxglove Frost "
    "Garnet Glacier Granite Greenleaf Harbor Hawthorn Hearth Heron Horizon Indigo Ironwood Ivory "
    "Jasper Juniper Kestrel Kingfisher Lakeside Lark Lumen Maple Meadow Meridian Mistral Nimbus "
    "Northwind Oakley Onyx Opal Orchid Osprey Pacific Pine Pioneer Quartz Raven Redwood Ridgeline "
    "Riverside Sage Sierra Silverline Solstice Sparrow Summit Sunrise Tempest Thistle Timber Topaz "
    "Tundra Vanguard Vista Walnut Westfield Willow Zephyr"
)
_QUALITIES = (
    "adjustable bamboo black blue brushed ceramic classic compact cordless cotton deluxe digital "
    "double electric foldable glass green heavy insulated kids large leather lightweight magnetic "
    "matte mini modern natural nonstick organic outdoor portable premium quiet rechargeable red "
    "round silicone slim small smart solar stainless steel travel ultra vintage waterproof white "
    "wireless wooden wool"
)
_THINGS = (
    "air fryer,alarm clock,apron,backpack,baking tray,bath mat,bed sheet,bicycle helmet,bicycle "
    "pump,blanket,blender,bookshelf,bottle opener,bread knife,broom,bucket,cake stand,camera bag,"
    "camping chair,camping stove,candle holder,can opener,carpet,cat tree,chopping board,coat "
    "rack,coffee grinder,coffee machine,colander,computer mouse,cooking pot,cushion,cutlery set,"
    "desk fan,desk lamp,dinner plate,dog bed,dog leash,door mat,drill,drinking glass,drying rack,"
    "dumbbell,dust pan,extension cord,fishing rod,flashlight,floor lamp,flower pot,food container,"
    "frying pan,garden hose,garden shears,gloves,guitar strap,hair dryer,hammer,hand mixer,hand "
    "towel,headphones,hiking boots,hot water bottle,ice tray,ironing board,jewelry box,jump rope,"
    "kettle,keyboard,kitchen scale,knife sharpener,ladder,lantern,laptop stand,laundry basket,"
    "lawn mower,lunch box,mattress,measuring cup,microphone,microwave,mirror,mixing bowl,mug,"
    "office chair,oven glove,paint brush,pencil case,pepper mill,phone charger,phone holder,"
    "picture frame,pillow,pizza stone,power bank,rain coat,rake,reading lamp,rice cooker,rolling "
    "pin,rug,running shoes,sandals,saucepan,screwdriver,sewing kit,shoe rack,shovel,shower curtain,"
    "skateboard,sleeping bag,soap dispenser,socks,sofa,speaker,spice rack,sports bag,spray bottle,"
    "storage box,suitcase,sunglasses,swimming goggles,table cloth,table lamp,tea pot,teddy bear,"
    "tent,thermometer,toaster,tool box,toothbrush,towel,trash can,tripod,umbrella,vacuum cleaner,"
    "vase,wallet,wardrobe,water bottle,watering can,whisk,wind chime,wine rack,wok,wrench,yoga mat"
)
_SIZES = (
    ",,, 500 ml, 1 l, 2 l, 30 cm, 45 cm, 60 cm, 10 inch, 12 inch, set of 2, set of 4, pack of 6,"
    " XL, M, S, 2.0, Pro, Plus"
)
_WISHES = (
    "something to boil water for tea",
    "a lamp for reading in bed",
    "a warm blanket for winter",
    "a gift for a child who loves animals",
    "a tool to cut the hedge",
    "a pan that does not stick",
    "shoes for running in the rain",
    "a bag for a short trip",
    "a quiet fan for the office",
    "a container for lunch at work",
    "a present for a guitar player",
    "something to keep drinks cold",
    "a chair for camping",
    "a light for the tent",
    "a towel for the beach",
    "a knife for bread",
)
QUESTIONS = [f"Customer: I am looking for {it}. Shop: I recommend the" for it in _WISHES]


def products(count: int, seed: int = 0) -> list[str]:
    """Return ``count`` names such as "Sage blue gloves" or "Lark small red kettle 2 l", sorted."""
    rng = np.random.default_rng(seed)
    names: set[str] = set()
    parts = [_BRANDS.split(), _QUALITIES.split(), _QUALITIES.split(), _THINGS.split(",")]
    sizes = _SIZES.split(",")
    while len(names) < count:
        words = [part[rng.integers(len(part))] for part in parts]
        if rng.random() < 0.6:
            del words[2]
        names.add(" ".join(words) + sizes[rng.integers(len(sizes))])
    return sorted(names)
